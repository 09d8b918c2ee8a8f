//! Settings of models: context windows, prices and retries.

use super::{ConfigError, Env, Providers};
use bridge::{model::Retries, store::usage_report::TokenPrices};
use provider::catalogue::{self, PublishedPrices};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    /// Context window of the model, in tokens. A request is shortened to fit it.
    ///
    /// Default: that of the model catalogue
    pub(crate) context: Option<u32>,
    /// Maximum output of the model, in tokens. It is sent only in a wire format that requires an output limit.
    ///
    /// Default: that of the model catalogue
    pub(crate) output: Option<u32>,
    /// Prices of a million tokens, in US dollars. The model catalogue has those of the known providers.
    pub(crate) prices: Option<Prices>,
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
pub(crate) struct Models(BTreeMap<String, ModelConfig>);

impl Models {
    /// Adds the implied provider to names without one.
    pub(super) fn new(written: BTreeMap<String, ModelConfig>, providers: &Providers) -> Self {
        let qualified = |name: String| match providers.split(&name) {
            Some((provider, model)) => format!("{}/{model}", provider.name),
            None => name,
        };
        Self(written.into_iter().map(|(name, config)| (qualified(name), config)).collect())
    }

    /// Finds a model by the name or the stamp of its provider. A stamp may have the wire format after the name. The model
    /// catalogue has what is not configured.
    pub(crate) fn get(&self, provider: &str, model: &str) -> ModelConfig {
        let provider = provider.split('+').next().unwrap_or_default();
        let own = self.0.get(&format!("{provider}/{model}")).copied().unwrap_or_default();
        let Some(published) = catalogue::find(provider, model) else { return own };
        let prices = published.prices.map(|PublishedPrices { input, cached, output }| Prices {
            input,
            cached,
            cache_write: None,
            output,
        });
        ModelConfig {
            context: own.context.or(published.context),
            output: own.output.or(published.output),
            prices: own.prices.or(prices),
        }
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
    attempts: Option<u32>,
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
        let max_wait = env.number::<f64>(variable)?.map(Seconds::try_from).transpose();
        let max_wait =
            max_wait.map_err(|message| ConfigError::Value { path: PathBuf::from(variable), message })?;
        Ok(Retries {
            attempts: attempts.unwrap_or(default.attempts),
            cap: max_wait.or(self.max_wait).map_or(default.cap, Seconds::time),
            ..default
        })
    }
}
