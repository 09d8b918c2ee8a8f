//! Resolves model names to model adapters.

use crate::config::{
    self, ConfigError, ExtraBody, Filled, Key, ModelConfig, ModelName, ProviderConfig, Settings,
};
use anyhow::{Context, bail};
use bridge::{
    Budget, ModelAdapter,
    model::{ModelAddress, ModelMemory, ModelSettings, ModelTarget},
};
use demo::DemoProvider;
use futures::{StreamExt, future, stream};
use provider::{
    Error, ModelRequest, ModelStream, Provider, ProviderEndpoint, RemoteProvider, SecretString, StreamEvent,
    remote::{self, LocalServer},
    scripted::ScriptedProvider,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// The timeout for the discovery of a model server on this machine.
const DISCOVERY_TIMEOUT: Duration = Duration::from_millis(250);

/// The adapter of a model with its fallbacks.
pub(super) fn adapter(settings: &Settings, model: &ModelName) -> anyhow::Result<ModelAdapter> {
    let first = target(settings, model)?;
    let others = settings.fallback.iter().map(|name| fallback(settings, name));
    let others = others.collect::<anyhow::Result<Vec<ModelTarget>>>()?;
    let others = others.into_iter().filter(|other| other.name() != first.name()).collect();
    Ok(ModelAdapter::with_fallbacks(first, others).with_retries(settings.retries))
}

fn target(settings: &Settings, model: &ModelName) -> anyhow::Result<ModelTarget> {
    match model.name.split_once('/').unwrap_or((&model.name, "")) {
        ("demo", name) => Ok(ModelTarget::new(Arc::new(DemoProvider), name, settings.budget)),
        ("scripted", name) if !name.is_empty() => scripted(model, name, settings.budget),
        _ => {
            let (provider, name) = find(settings, model)?;
            let endpoint = model_endpoint(settings, provider, name).with_context(|| model.source.clone())?;
            Ok(remote_target(settings, provider, name, Arc::new(RemoteProvider::new(endpoint))))
        }
    }
}

/// A fallback without a usable provider fails only when it is called.
fn fallback(settings: &Settings, model: &ModelName) -> anyhow::Result<ModelTarget> {
    let unusable = settings.providers.split(&model.name).and_then(|(provider, name)| {
        let why = model_endpoint(settings, provider, name).err()?;
        let unusable = UnusableProvider { name: provider.name.clone(), why: why.to_string() };
        Some(remote_target(settings, provider, name, Arc::new(unusable)))
    });
    unusable.map_or_else(|| target(settings, model), Ok)
}

fn remote_target(
    settings: &Settings,
    config: &ProviderConfig,
    name: &str,
    provider: Arc<dyn Provider>,
) -> ModelTarget {
    let facts = settings.models.get(&config.name, name);
    ModelTarget::new(provider, name, settings.budget)
        .with_context(facts.context)
        .with_output(facts.output)
        .with_settings(model_settings(config, facts))
        .with_origin(config.stamp())
        .with_memory(Arc::new(model_memory(settings)), model_address(config, name))
}

fn model_settings(config: &ProviderConfig, facts: ModelConfig) -> ModelSettings {
    let has_cache_key = || config.api.wire().has_prompt_cache_key(&config.base_url);
    ModelSettings {
        parallel_tool_calls: facts.parallel_tool_calls.or(config.parallel_tool_calls),
        prompt_cache_key: config.prompt_cache_key.unwrap_or_else(has_cache_key),
        enforces_schema: facts.enforces_schema,
        extra_body: config.extra_body.merged(&facts.extra_body).fields().clone(),
        missing: facts.missing,
        confirmed: facts.confirmed,
    }
}

/// What servers said about their models, shared by all processes with this data directory.
pub(crate) fn model_memory(settings: &Settings) -> ModelMemory {
    ModelMemory::in_file(settings.home.join("model-memory.json"))
}

/// The key of a model in the memory.
pub(crate) fn model_address(config: &ProviderConfig, model: &str) -> ModelAddress {
    // A key that is not set is no secret in the address.
    let endpoint = endpoint(config)
        .unwrap_or_else(|_| ProviderEndpoint::new(&config.name, config.api.wire(), &config.base_url));
    ModelAddress { address: endpoint.address(), api: config.api.name().to_owned(), model: model.to_owned() }
}

fn scripted(model: &ModelName, file: &str, budget: Budget) -> anyhow::Result<ModelTarget> {
    let path = model.base.join(file);
    if !path.exists() {
        return Err(ConfigError::Missing { path, named_by: model.source.clone() }.into());
    }
    let script = ScriptedProvider::from_file(&path).map_err(|error| config::in_script(&path, error))?;
    let name = script.model().unwrap_or(file).to_owned();
    Ok(ModelTarget::new(Arc::new(script), name, budget))
}

/// The provider of a model, and the model's name there.
fn find<'a>(settings: &'a Settings, model: &'a ModelName) -> anyhow::Result<(&'a ProviderConfig, &'a str)> {
    let ModelName { name, source, .. } = model;
    let known = settings.providers.names();
    match settings.providers.split(name) {
        Some((provider, "")) => bail!(
            "{source}: {name:?} names no model; write {}/MODEL with one that `lango models` lists",
            provider.name
        ),
        Some(found) => Ok(found),
        None => match name.split_once('/') {
            Some((provider, _)) => bail!(
                "{source}: there is no provider {provider:?}; the providers are demo, scripted, {known}; [providers.NAME] in lango.toml adds others"
            ),
            None => bail!(
                "{source}: {name:?} does not name the provider; write PROVIDER/{name} with one of {known}"
            ),
        },
    }
}

/// The endpoint of a provider. Fails if a key or variable that it needs is not set.
pub(crate) fn endpoint(config: &ProviderConfig) -> anyhow::Result<ProviderEndpoint> {
    if let Some(missing) = config.missing_key() {
        bail!(missing);
    }
    let filled = |what: &str, text: &Filled| match text.get() {
        Ok(text) => Ok(text.to_owned()),
        Err(variable) => bail!("{what} of {} is ${{{variable}}}, which is not set", config.name),
    };
    let mut endpoint = ProviderEndpoint::new(&config.name, config.api.wire(), &config.base_url);
    if let Key::Filled(key) = &config.key {
        endpoint.key = Some(SecretString::new(filled("the key", key)?));
    }
    for (name, value) in &config.headers {
        endpoint
            .headers
            .push((name.clone(), SecretString::new(filled(&format!("the header {name}"), value)?)));
    }
    endpoint.body_variables = body_variables(&config.extra_body, &format!("extraBody of {}", config.name))?;
    endpoint.organization =
        config.organization.as_ref().map(|text| filled("the organization", text)).transpose()?;
    endpoint.ca_file.clone_from(&config.ca_file);
    endpoint.connect_timeout = config.connect_timeout.unwrap_or(endpoint.connect_timeout);
    endpoint.idle_timeout = config.idle_timeout.unwrap_or(endpoint.idle_timeout);
    Ok(endpoint)
}

/// The endpoint for one model, which may have extra fields of its own.
fn model_endpoint(
    settings: &Settings,
    config: &ProviderConfig,
    model: &str,
) -> anyhow::Result<ProviderEndpoint> {
    let mut endpoint = endpoint(config)?;
    let own = settings.models.get(&config.name, model).extra_body;
    let setting = format!("extraBody of {}/{model}", config.name);
    endpoint.body_variables.extend(body_variables(&own, &setting)?);
    Ok(endpoint)
}

/// The variables of extra fields with their values. Fails if one is not set.
fn body_variables(body: &ExtraBody, setting: &str) -> anyhow::Result<Vec<(String, SecretString)>> {
    let variable = |(name, value): &(String, Filled)| match value.get() {
        Ok(value) => Ok((name.clone(), SecretString::new(value))),
        Err(missing) => bail!("{setting} contains ${{{missing}}}, which is not set"),
    };
    body.variables().iter().map(variable).collect()
}

/// The model of agents that name none, and a notice about the choice.
pub(crate) async fn default_model(settings: &Settings) -> (ModelName, Option<String>) {
    match &settings.model {
        Some(model) => (model.clone(), None),
        None => automatic_model(settings).await,
    }
}

/// The model if none is configured: that of the first provider with a key, else of a server on this machine, else `demo`.
async fn automatic_model(settings: &Settings) -> (ModelName, Option<String>) {
    let named = |name: String| ModelName { source: name.clone(), name, base: PathBuf::new() };
    if let Some(name) = settings.providers.by_key() {
        return (named(name), None);
    }
    match discover_local(settings).await {
        Some(name) => {
            let note = format!("no model is chosen and no key is set; {name} was found on this machine");
            (named(name), Some(note))
        }
        None => (named("demo".to_owned()), None),
    }
}

/// The first model of the first server on this machine that has one.
async fn discover_local(settings: &Settings) -> Option<String> {
    if !settings.discover {
        return None;
    }
    let servers = settings.providers.local().filter_map(|(known, port)| {
        Some(LocalServer { name: known, api: settings.providers.get(known)?.api.wire(), port })
    });
    let queries = servers.map(|server| async move {
        let found = tokio::time::timeout(DISCOVERY_TIMEOUT, remote::discover(&[server])).await.ok()?;
        let found = found.into_iter().next()?;
        Some(format!("{}/{}", found.endpoint.name, found.models.first()?.id))
    });
    future::join_all(queries).await.into_iter().flatten().next()
}

/// A provider with an incomplete configuration. Each call fails with the reason.
struct UnusableProvider {
    name: String,
    why: String,
}

impl Provider for UnusableProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let (provider, message) = (self.name.clone(), self.why.clone());
        stream::iter([StreamEvent::Error(Error::Setup { provider, message })]).boxed()
    }
}
