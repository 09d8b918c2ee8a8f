//! From a model's name to one that can be asked.

use crate::config::{self, ApiName, ConfigError, Filled, Key, ModelName, ProviderConfig, Settings};
use anyhow::{Context, bail};
use bridge::{Budget, ModelAdapter, model::ModelTarget};
use demo::DemoProvider;
use futures::{StreamExt, future, stream};
use provider::{
    Error, ModelRequest, ModelStream, Provider, ProviderEndpoint, RemoteProvider, SecretString, StreamEvent,
    WireApi,
    remote::{self, LocalServer},
    scripted::ScriptedProvider,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a server on this machine may take to say what it has, when nobody asked for it.
const GLANCE: Duration = Duration::from_millis(250);

/// The model, and those that are asked in its place.
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
            let endpoint = endpoint(provider).with_context(|| model.said.clone())?;
            Ok(reached(settings, provider, name, Arc::new(RemoteProvider::new(endpoint))))
        }
    }
}

/// A fallback that cannot be used is an error only when it is needed.
fn fallback(settings: &Settings, model: &ModelName) -> anyhow::Result<ModelTarget> {
    let unusable = settings.providers.split(&model.name).and_then(|(provider, name)| {
        let why = endpoint(provider).err()?;
        let unusable = Unusable { provider: provider.name.clone(), why: why.to_string() };
        Some(reached(settings, provider, name, Arc::new(unusable)))
    });
    unusable.map_or_else(|| target(settings, model), Ok)
}

fn reached(
    settings: &Settings,
    config: &ProviderConfig,
    name: &str,
    provider: Arc<dyn Provider>,
) -> ModelTarget {
    let context = settings.models.get(&config.name, name).context;
    ModelTarget::new(provider, name, settings.budget).with_context(context).with_stamp(config.stamp())
}

fn scripted(model: &ModelName, file: &str, budget: Budget) -> anyhow::Result<ModelTarget> {
    let path = model.base.join(file);
    if !path.exists() {
        return Err(ConfigError::Missing { path, named_by: model.said.clone() }.into());
    }
    let script = ScriptedProvider::from_file(&path).map_err(|error| config::in_script(&path, error))?;
    let name = script.model().unwrap_or(file).to_owned();
    Ok(ModelTarget::new(Arc::new(script), name, budget))
}

/// The provider of a model, and its name there.
fn find<'a>(settings: &'a Settings, model: &'a ModelName) -> anyhow::Result<(&'a ProviderConfig, &'a str)> {
    let ModelName { name, said, .. } = model;
    let known = settings.providers.names();
    match settings.providers.split(name) {
        Some((provider, "")) => bail!(
            "{said}: {name:?} names no model; write {}/MODEL with one that `lango models` lists",
            provider.name
        ),
        Some(found) => Ok(found),
        None => match name.split_once('/') {
            Some((provider, _)) => bail!(
                "{said}: there is no provider {provider:?}; there is demo, scripted, {known}, and what [providers.NAME] in lango.toml adds"
            ),
            None => bail!(
                "{said}: {name:?} does not say whose model it is; write PROVIDER/{name} with one of {known}"
            ),
        },
    }
}

/// How a provider is reached. What it needs and is not set is told.
pub(crate) fn endpoint(config: &ProviderConfig) -> anyhow::Result<ProviderEndpoint> {
    if let Some(missing) = config.missing_key() {
        bail!(missing);
    }
    let filled = |what: &str, text: &Filled| match text.get() {
        Ok(text) => Ok(text.to_owned()),
        Err(variable) => bail!("{what} of {} is ${{{variable}}}, which is not set", config.name),
    };
    let mut endpoint = ProviderEndpoint::new(&config.name, api(config.api), &config.base_url);
    if let Key::Filled(key) = &config.key {
        endpoint.key = Some(SecretString::new(filled("the key", key)?));
    }
    for (name, value) in &config.headers {
        endpoint
            .headers
            .push((name.clone(), SecretString::new(filled(&format!("the header {name}"), value)?)));
    }
    endpoint.organization =
        config.organization.as_ref().map(|text| filled("the organization", text)).transpose()?;
    endpoint.ca_file.clone_from(&config.ca_file);
    endpoint.connect_timeout = config.connect_timeout.unwrap_or(endpoint.connect_timeout);
    endpoint.idle_timeout = config.idle_timeout.unwrap_or(endpoint.idle_timeout);
    Ok(endpoint)
}

fn api(name: ApiName) -> WireApi {
    match name {
        ApiName::Chat => WireApi::Chat,
        ApiName::Responses => WireApi::Responses,
        ApiName::Anthropic => WireApi::Anthropic,
        ApiName::Gemini => WireApi::Gemini,
        ApiName::Ollama => WireApi::Ollama,
    }
}

/// The model of agents that name none, and what to say of that choice.
pub(crate) async fn chosen(settings: &Settings) -> (ModelName, Option<String>) {
    match &settings.model {
        Some(model) => (model.clone(), None),
        None => unchosen(settings).await,
    }
}

/// The model where nobody has chosen one, and what to say of that choice.
async fn unchosen(settings: &Settings) -> (ModelName, Option<String>) {
    let named = |name: String| ModelName { said: name.clone(), name, base: PathBuf::new() };
    if let Some(name) = settings.providers.by_key() {
        return (named(name), None);
    }
    match found_here(settings).await {
        Some(name) => {
            let note = format!("no model is chosen and no key is set; {name} was found on this machine");
            (named(name), Some(note))
        }
        None => (named("demo".to_owned()), None),
    }
}

/// The first model of the first server on this machine that has one.
async fn found_here(settings: &Settings) -> Option<String> {
    if !settings.discover {
        return None;
    }
    let servers = settings.providers.here().filter_map(|(known, port)| {
        Some(LocalServer { name: known, api: api(settings.providers.get(known)?.api), port })
    });
    let looks = servers.map(|server| async move {
        let found = tokio::time::timeout(GLANCE, remote::discover(&[server])).await.ok()?;
        let found = found.into_iter().next()?;
        Some(format!("{}/{}", found.endpoint.name, found.models.first()?.id))
    });
    future::join_all(looks).await.into_iter().flatten().next()
}

/// A provider that is named and cannot be used: it says so when it is asked.
struct Unusable {
    provider: String,
    why: String,
}

impl Provider for Unusable {
    fn name(&self) -> &str {
        &self.provider
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let (provider, message) = (self.provider.clone(), self.why.clone());
        stream::iter([StreamEvent::Error(Error::Setup { provider, message })]).boxed()
    }
}
