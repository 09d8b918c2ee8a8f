//! Providers: the known ones, merged with the file and the environment.

use super::{
    ConfigError, Env,
    extra_body::ExtraBody,
    known::{KNOWN, Known, provider_of},
    models::Seconds,
    template::Filled,
};
use provider::WireApi;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// A wire format, as written in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApiName {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}

impl ApiName {
    /// The format as the provider crate has it.
    pub(crate) fn wire(self) -> WireApi {
        match self {
            Self::Chat => WireApi::Chat,
            Self::Responses => WireApi::Responses,
            Self::Anthropic => WireApi::Anthropic,
            Self::Gemini => WireApi::Gemini,
            Self::Ollama => WireApi::Ollama,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ProviderSection {
    /// The wire format.
    ///
    /// Default: that of the known provider, else `"chat"`
    api: Option<ApiName>,
    /// Base URL. Required for a provider that is not a known one.
    ///
    /// Default: that of the known provider
    #[serde(alias = "base_url")]
    base_url: Option<String>,
    /// API key. Write `${NAME}` to take it from the environment.
    ///
    /// Default: the variable of the known provider
    key: Option<String>,
    /// Headers that are sent with every request. Values may contain `${NAME}`.
    headers: BTreeMap<String, String>,
    /// Fields that are added to the body of every request, as the server documents them. Tables are merged with those that Lango sends,
    /// other values replace them. Strings may contain `${NAME}`. The conversation, the model, the tools and streaming cannot be
    /// replaced.
    #[serde(alias = "extra_body")]
    extra_body: Map<String, Value>,
    /// Whether an answer may contain several tool calls.
    ///
    /// Default: the server decides
    #[serde(alias = "parallel_tool_calls")]
    parallel_tool_calls: Option<bool>,
    /// Whether requests have a `prompt_cache_key`, a hash of session and agent. Only `chat` and `responses` have it.
    ///
    /// Default: `true` for `openai.com`, else `false`
    #[serde(alias = "prompt_cache_key")]
    prompt_cache_key: Option<bool>,
    /// Value of the header `openai-organization`.
    organization: Option<String>,
    /// PEM file with certificate authorities to trust beside those of the system.
    #[serde(alias = "ca_file")]
    ca_file: Option<PathBuf>,
    /// Time to connect.
    ///
    /// Default: `10`
    #[serde(rename = "connectTimeoutS", alias = "connect_timeout_s")]
    connect_timeout: Option<Seconds>,
    /// How long the server may send nothing, before and during an answer. There is no limit on a whole answer.
    ///
    /// Default: `300`
    #[serde(rename = "idleTimeoutS", alias = "idle_timeout_s")]
    idle_timeout: Option<Seconds>,
}

/// A resolved provider.
#[derive(Clone, Debug)]
pub(crate) struct ProviderConfig {
    pub(crate) name: String,
    pub(crate) api: ApiName,
    pub(crate) base_url: String,
    pub(crate) key: Key,
    pub(crate) headers: Vec<(String, Filled)>,
    pub(crate) extra_body: ExtraBody,
    pub(crate) parallel_tool_calls: Option<bool>,
    /// `None` for the default of the server.
    pub(crate) prompt_cache_key: Option<bool>,
    pub(crate) organization: Option<Filled>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    /// The default model.
    pub(crate) model: Option<&'static str>,
    /// Whether a key selects the provider if no model is configured.
    pub(crate) chosen_by_key: bool,
    /// Whether the file or the environment configures it.
    pub(crate) configured: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Key {
    Filled(Filled),
    /// None of these variables is set.
    Missing(&'static [&'static str]),
    /// The provider needs no key.
    NotNeeded,
}

impl ProviderConfig {
    pub(crate) fn has_key(&self) -> bool {
        matches!(&self.key, Key::Filled(key) if key.get().is_ok())
    }

    /// The error with the fix if the key is missing.
    pub(crate) fn missing_key(&self) -> Option<String> {
        let name = &self.name;
        match &self.key {
            Key::NotNeeded => None,
            Key::Missing(variables) => {
                let variable = variables.first().unwrap_or(&"KEY");
                Some(format!(
                    "{name} needs a key: set {variable}, or `key` in [providers.{name}] of lango.toml"
                ))
            }
            Key::Filled(key) => {
                let variable = key.get().err()?;
                Some(format!("the key of {name} is ${{{variable}}}, which is not set: set it to the key"))
            }
        }
    }

    /// The stamp of opaque data: the provider, and the wire format unless it is the default. Opaque data of one wire format is
    /// not valid in another.
    pub(crate) fn stamp(&self) -> String {
        let known = KNOWN.iter().find(|known| known.name == self.name);
        let default = known.map_or(ApiName::Chat, |known| known.api);
        if self.api == default { self.name.clone() } else { format!("{}+{}", self.name, self.api.name()) }
    }

    fn of_known(known: &Known, env: &Env) -> Result<Self, ConfigError> {
        let key = known.keys.iter().find_map(|name| env.secret(name).transpose()).transpose()?;
        let url = known.url_variable.map(|name| env.text(name)).transpose()?.flatten();
        Ok(Self {
            name: known.name.to_owned(),
            api: known.api,
            configured: (key.is_some() && known.chosen_by_key) || url.is_some(),
            base_url: known.url.to_owned(),
            key: match key {
                Some(key) => Key::Filled(Filled::of_variable(&key)),
                None if known.keys.is_empty() => Key::NotNeeded,
                None => Key::Missing(known.keys),
            },
            headers: Vec::new(),
            extra_body: ExtraBody::default(),
            parallel_tool_calls: None,
            prompt_cache_key: None,
            organization: None,
            ca_file: None,
            connect_timeout: None,
            idle_timeout: None,
            model: known.model,
            chosen_by_key: known.chosen_by_key,
        }
        .with_base_url(url.map(|url| expand_host(&url, known))))
    }

    /// With another base URL. Servers that replace OpenAI's use chat completions, not responses.
    fn with_base_url(self, url: Option<String>) -> Self {
        let Some(base_url) = url else { return self };
        let api = if self.api == ApiName::Responses { ApiName::Chat } else { self.api };
        Self { api, base_url, ..self }
    }

    /// With the settings of the file.
    fn with_section(self, written: ProviderSection, base: &Path, env: &Env) -> Self {
        let fill = |text: &String| Filled::new(text, env);
        let moved = self.with_base_url(written.base_url);
        Self {
            api: written.api.unwrap_or(moved.api),
            key: written.key.as_ref().map_or(moved.key, |key| Key::Filled(fill(key))),
            headers: written.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            extra_body: ExtraBody::new(written.extra_body, env),
            parallel_tool_calls: written.parallel_tool_calls,
            prompt_cache_key: written.prompt_cache_key,
            organization: written.organization.as_ref().map(fill),
            ca_file: written.ca_file.map(|path| base.join(path)),
            connect_timeout: written.connect_timeout.map(Seconds::time),
            idle_timeout: written.idle_timeout.map(Seconds::time),
            chosen_by_key: moved.chosen_by_key || written.key.is_some(),
            configured: true,
            ..moved
        }
    }

    fn custom(name: &str, written: &ProviderSection) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            api: ApiName::Chat,
            base_url: written.base_url.clone()?,
            key: Key::NotNeeded,
            headers: Vec::new(),
            extra_body: ExtraBody::default(),
            parallel_tool_calls: None,
            prompt_cache_key: None,
            organization: None,
            ca_file: None,
            connect_timeout: None,
            idle_timeout: None,
            model: None,
            chosen_by_key: false,
            configured: true,
        })
    }
}

/// The base URL for the value of `OLLAMA_HOST`, whose scheme, host and port are optional. Other URLs are not changed.
fn expand_host(written: &str, known: &Known) -> String {
    let written = with_reachable_host(written.trim().trim_end_matches('/'));
    if !known.is_local() || written.contains("://") {
        return written;
    }
    let default_port = known.url.rsplit(':').next().unwrap_or_default();
    let authority = if written.starts_with(':') { format!("127.0.0.1{written}") } else { written };
    let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    if has_port { format!("http://{authority}") } else { format!("http://{authority}:{default_port}") }
}

/// Replaces the host `0.0.0.0`, which servers listen on, by the loopback address, which clients connect to.
fn with_reachable_host(written: &str) -> String {
    let (scheme, rest) = written.find("://").map_or(("", written), |at| written.split_at(at + 3));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host = authority.rfind('@').map_or(0, |at| at + 1);
    let is_any =
        |host: &str| host.strip_prefix("0.0.0.0").is_some_and(|end| end.is_empty() || end.starts_with(':'));
    if !is_any(&authority[host..]) {
        return written.to_owned();
    }
    let (before, behind) = rest.split_at(host);
    format!("{scheme}{before}127.0.0.1{}", &behind["0.0.0.0".len()..])
}

/// All providers: the known ones, and those that the file adds.
#[derive(Clone, Debug)]
pub(crate) struct Providers(Vec<ProviderConfig>);

impl Providers {
    /// The values that are masked in results of tools.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let of = |provider: &ProviderConfig| {
            let key = match &provider.key {
                Key::Filled(key) => Some(key.clone()),
                Key::Missing(_) | Key::NotNeeded => None,
            };
            let headers = provider.headers.iter().map(|(_, value)| value.clone());
            let body = provider.extra_body.values().cloned();
            key.into_iter().chain(headers).chain(body).collect::<Vec<_>>()
        };
        let all: Vec<Filled> = self.iter().flat_map(of).collect();
        all.into_iter().filter_map(|secret| secret.get().ok().map(str::to_owned))
    }

    pub(super) fn new(
        mut written: BTreeMap<String, ProviderSection>,
        file: &Path,
        env: &Env,
    ) -> Result<Self, ConfigError> {
        let base = file.parent().unwrap_or(Path::new(""));
        let mut all = Vec::new();
        for known in KNOWN {
            let config = ProviderConfig::of_known(known, env)?;
            all.push(match written.remove(known.name) {
                Some(written) => config.with_section(written, base, env),
                None => config,
            });
        }
        for (name, written) in written {
            let message = format!("[providers.{name}] needs `baseUrl`, the address of the server");
            let config = ProviderConfig::custom(&name, &written);
            let config = config.ok_or(ConfigError::Value { path: file.to_path_buf(), message })?;
            all.push(config.with_section(written, base, env));
        }
        for provider in &all {
            let setting = format!("[providers.{}] extraBody", provider.name);
            provider.extra_body.check(provider.api, &setting, file)?;
        }
        match all.iter().find(|provider| !is_http_url(&provider.base_url)) {
            Some(invalid) => {
                // The URL is not printed: it may contain a secret.
                let message =
                    format!("the address of {} does not begin with http:// or https://", invalid.name);
                Err(ConfigError::Value { path: file.to_path_buf(), message })
            }
            None => Ok(Self(all)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProviderConfig> {
        self.0.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ProviderConfig> {
        self.iter().find(|provider| provider.name == name)
    }

    /// Splits `provider/model`. For a provider alone, the model is its default, or empty if it has none. `None` if the provider
    /// is unknown and not implied by the model.
    pub(crate) fn split<'a>(&self, model: &'a str) -> Option<(&ProviderConfig, &'a str)> {
        if let Some((provider, model)) = model.split_once('/') {
            return Some((self.get(provider)?, model));
        }
        if let Some(provider) = self.get(model) {
            return Some((provider, provider.model.unwrap_or_default()));
        }
        provider_of(model).and_then(|provider| self.get(provider)).map(|provider| (provider, model))
    }

    /// The default model of the first provider with a key.
    pub(crate) fn by_key(&self) -> Option<String> {
        let mut keyed = self.iter().filter(|provider| provider.chosen_by_key && provider.has_key());
        keyed.find_map(|provider| Some(format!("{}/{}", provider.name, provider.model?)))
    }

    /// The known model servers of this machine, with their ports.
    pub(crate) fn local(&self) -> impl Iterator<Item = (&'static str, u16)> {
        KNOWN.iter().filter(|known| known.is_local()).filter_map(|known| {
            let url = &self.get(known.name)?.base_url;
            Some((known.name, loopback_port(url)?))
        })
    }

    pub(crate) fn names(&self) -> String {
        self.iter().map(|provider| provider.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn is_http_url(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|host| !host.is_empty()))
}

/// The port of a loopback URL; `None` for other hosts.
pub(crate) fn loopback_port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        Some(_) | None => (authority, if scheme == "https" { 443 } else { 80 }),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback.then_some(port)
}

#[cfg(test)]
mod tests;
