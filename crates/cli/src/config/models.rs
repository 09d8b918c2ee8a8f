//! Settings of models: sizes, prices, capabilities, extra fields of bodies, and retries.

use super::{ConfigError, Env, Providers, extra_body::ExtraBody};
use bridge::{model::Retries, store::usage_report::TokenPrices};
use provider::{
    MediaKind, Omission,
    catalogue::{self, Capability, PublishedModel, PublishedPrices},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ModelSection {
    /// Context window of the model, in tokens. A request is shortened to fit it.
    ///
    /// Default: that of the model catalogue
    context: Option<u32>,
    /// Maximum output of the model, in tokens. It is sent only in a wire format that requires an output limit.
    ///
    /// Default: that of the model catalogue
    output: Option<u32>,
    /// Prices of a million tokens, in US dollars. The model catalogue has those of the known providers.
    prices: Option<Prices>,
    /// Fields that are added to the body of every request to this model. They precede those of the provider.
    #[serde(alias = "extra_body")]
    extra_body: Map<String, Value>,
    /// Whether an answer may contain several tool calls.
    ///
    /// Default: that of the provider
    #[serde(alias = "parallel_tool_calls")]
    parallel_tool_calls: Option<bool>,
    /// What the model supports. What it does not support is left out of requests, or another model of `fallback` is asked.
    capabilities: CapabilitySection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct CapabilitySection {
    /// Whether the model calls tools. `true` sends them whatever the catalogue or the server said, and so on for the other keys.
    ///
    /// Default: that of the model catalogue
    tools: Option<bool>,
    /// Whether the model sees images.
    ///
    /// Default: that of the model catalogue
    images: Option<bool>,
    /// Whether the model hears audio files.
    ///
    /// Default: what the server accepts
    audio: Option<bool>,
    /// Whether the model sees videos.
    ///
    /// Default: what the server accepts
    video: Option<bool>,
    /// Whether the model reads PDF files.
    ///
    /// Default: that of the model catalogue
    documents: Option<bool>,
    /// Whether the model has a reasoning effort.
    ///
    /// Default: that of the model catalogue
    reasoning: Option<bool>,
    /// Whether the server enforces the schema of an answer. Otherwise the schema is part of the instruction.
    ///
    /// Default: that of the model catalogue
    #[serde(alias = "response_schema")]
    response_schema: Option<bool>,
}

/// What is configured and published about a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelConfig {
    pub(crate) context: Option<u32>,
    pub(crate) output: Option<u32>,
    pub(crate) prices: Option<Prices>,
    pub(crate) extra_body: ExtraBody,
    pub(crate) parallel_tool_calls: Option<bool>,
    /// What the model does not support.
    pub(crate) missing: Vec<Omission>,
    /// What the model supports by the configuration.
    pub(crate) confirmed: Vec<Omission>,
    /// Whether the server is known to enforce the schema of an answer.
    pub(crate) enforces_schema: bool,
}

impl CapabilitySection {
    /// Each capability with its omission, and with what the catalogue says of it.
    fn resolve(
        self,
        published: Option<PublishedModel>,
    ) -> impl Iterator<Item = (Omission, Option<bool>, Option<bool>)> {
        let media = |kind: MediaKind| Omission::Media(kind);
        let all = [
            (Omission::Tools, self.tools, Some(Capability::Tools)),
            (media(MediaKind::Image), self.images, Some(Capability::Images)),
            (media(MediaKind::Audio), self.audio, None),
            (media(MediaKind::Video), self.video, None),
            (media(MediaKind::Document), self.documents, Some(Capability::Documents)),
            (Omission::Reasoning, self.reasoning, Some(Capability::Reasoning)),
            (Omission::AnswerSchema, self.response_schema, Some(Capability::ResponseSchema)),
        ];
        all.into_iter().map(move |(omission, configured, capability)| {
            let stated = published.zip(capability).and_then(|(model, capability)| model.states(capability));
            (omission, configured, stated)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    /// Price of input tokens.
    pub(crate) input: f64,
    /// Price of input tokens that the provider had cached.
    ///
    /// Default: the price of input tokens
    pub(crate) cached: Option<f64>,
    /// Price of input tokens that the provider writes to its cache.
    ///
    /// Default: 1.25 times the price of input tokens
    #[serde(rename = "cacheWrite", alias = "cache_write")]
    pub(crate) cache_write: Option<f64>,
    /// Price of output tokens, reasoning included.
    pub(crate) output: f64,
}

/// What writing to a cache costs, as a multiple of the price of input tokens.
const CACHE_WRITE_FACTOR: f64 = 1.25;

impl From<Prices> for TokenPrices {
    fn from(prices: Prices) -> Self {
        Self {
            input: prices.input,
            cache_read: prices.cached.unwrap_or(prices.input),
            cache_write: prices.cache_write.unwrap_or(prices.input * CACHE_WRITE_FACTOR),
            output: prices.output,
        }
    }
}

/// The configured models, by `provider/model`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models(BTreeMap<String, ConfiguredModel>);

#[derive(Clone, Debug, Default)]
struct ConfiguredModel {
    config: ModelConfig,
    capabilities: CapabilitySection,
}

impl Models {
    /// Adds the implied provider to names without one.
    pub(super) fn new(
        written: BTreeMap<String, ModelSection>,
        providers: &Providers,
        (file, env): (&Path, &Env),
    ) -> Result<Self, ConfigError> {
        let mut all = BTreeMap::new();
        for (name, section) in written {
            let found = providers.split(&name);
            let extra_body = ExtraBody::new(section.extra_body, env);
            if let Some((provider, _)) = found {
                extra_body.check(provider.api, &format!("[models.\"{name}\"] extraBody"), file)?;
            }
            let config = ModelConfig {
                context: section.context,
                output: section.output,
                prices: section.prices,
                extra_body,
                parallel_tool_calls: section.parallel_tool_calls,
                ..ModelConfig::default()
            };
            let qualified = found.map(|(provider, model)| format!("{}/{model}", provider.name));
            let model = ConfiguredModel { config, capabilities: section.capabilities };
            all.insert(qualified.unwrap_or(name), model);
        }
        Ok(Self(all))
    }

    /// The values that are masked in results of tools.
    pub(super) fn secrets(&self) -> impl Iterator<Item = String> {
        let values = self.0.values().flat_map(|model| model.config.extra_body.values());
        values.filter_map(|secret| secret.get().ok().map(str::to_owned))
    }

    /// Finds a model by the name or the stamp of its provider. A stamp may have the wire format after the name. The model
    /// catalogue has what is not configured.
    pub(crate) fn get(&self, provider: &str, model: &str) -> ModelConfig {
        let provider = provider.split('+').next().unwrap_or_default();
        let ConfiguredModel { config: own, capabilities } =
            self.0.get(&format!("{provider}/{model}")).cloned().unwrap_or_default();
        let published = catalogue::find(provider, model);
        let prices = published.and_then(|published| published.prices);
        let prices = prices.map(|PublishedPrices { input, cached, output }| Prices {
            input,
            cached,
            cache_write: None,
            output,
        });
        let mut config = ModelConfig {
            context: own.context.or(published.and_then(|published| published.context)),
            output: own.output.or(published.and_then(|published| published.output)),
            prices: own.prices.or(prices),
            ..own
        };
        for (omission, configured, stated) in capabilities.resolve(published) {
            let supported = configured.or(stated);
            config.enforces_schema |= omission == Omission::AnswerSchema && supported == Some(true);
            if supported == Some(false) {
                config.missing.push(omission);
            } else if configured == Some(true) {
                config.confirmed.push(omission);
            }
        }
        config
    }
}

/// A duration in seconds; fractions are allowed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Seconds(Duration);

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let time = Duration::try_from_secs_f64(number);
        time.map(Self).map_err(|_| format!("{number} is not a number of seconds"))
    }
}

impl Seconds {
    pub(super) fn time(self) -> Duration {
        self.0
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Retry {
    /// How often each model is called until it answers, the first call included; `1` means no retry.
    ///
    /// Default: `4`
    /// Environment: `LANGO_RETRY_ATTEMPTS`
    attempts: Option<NonZeroU32>,
    /// The longest wait between two attempts. If the provider asks for a longer one, the fallback is used.
    ///
    /// Default: `60`
    /// Environment: `LANGO_RETRY_MAX_WAIT_S`
    #[serde(rename = "maxWaitS", alias = "max_wait_s")]
    max_wait: Option<Seconds>,
}

impl Retry {
    pub(super) fn retries(self, env: &Env) -> Result<Retries, ConfigError> {
        let default = Retries::default();
        let attempts = env.number("LANGO_RETRY_ATTEMPTS")?.or(self.attempts);
        let variable = "LANGO_RETRY_MAX_WAIT_S";
        let max_wait = env.decimal(variable)?.map(Seconds::try_from).transpose();
        let max_wait =
            max_wait.map_err(|message| ConfigError::Value { path: PathBuf::from(variable), message })?;
        Ok(Retries {
            attempts: attempts.map_or(default.attempts, NonZeroU32::get),
            cap: max_wait.or(self.max_wait).map_or(default.cap, Seconds::time),
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(toml: &str) -> Result<Models, ConfigError> {
        let (file, env) = (Path::new("lango.toml"), Env::of(&[("TEAM", "blue-team")]));
        let providers = Providers::new(BTreeMap::new(), file, &env)?;
        Models::new(toml::from_str(toml).unwrap(), &providers, (file, &env))
    }

    #[test]
    fn stated_capability_of_the_catalogue_applies_unless_it_is_configured() {
        let missing = |toml: &str| models(toml).unwrap().get("openai", "gpt-audio").missing;
        let stated = [Omission::Media(MediaKind::Image), Omission::Reasoning, Omission::AnswerSchema];
        assert_eq!(missing(""), stated);
        let own =
            "[\"openai/gpt-audio\"]\ncapabilities = { images = true, response_schema = true, audio = false }";
        assert_eq!(missing(own), [Omission::Media(MediaKind::Audio), Omission::Reasoning]);
        let config = models(own).unwrap().get("openai", "gpt-audio");
        assert_eq!(config.confirmed, [Omission::Media(MediaKind::Image), Omission::AnswerSchema]);
        assert!(config.enforces_schema);
        // The catalogue says nothing about images of this model.
        assert_eq!(models("").unwrap().get("openai", "gpt-3.5-turbo").missing, []);
        assert_eq!(models("").unwrap().get("ollama", "unheard-of").missing, []);
        assert!(models("").unwrap().get("anthropic", "claude-sonnet-4-5").enforces_schema);
    }

    #[test]
    fn extra_fields_are_checked_for_the_format_of_the_provider() {
        let own = models("[\"gpt-x\"]\nextraBody = { team = \"${TEAM}\", metadata = { a = 1 } }").unwrap();
        assert_eq!(own.get("openai", "gpt-x").extra_body.fields().len(), 2);
        assert_eq!(own.secrets().collect::<Vec<_>>(), ["blue-team"]);
        let error = models("[\"claude-x\"]\nextraBody = { system = \"x\" }").unwrap_err().to_string();
        insta::assert_snapshot!(error, @r#"lango.toml: [models."claude-x"] extraBody must not contain `system`: the instruction is set with `instruction` in the agent's file"#);
    }
}
