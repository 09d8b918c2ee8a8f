//! Queries the model lists of providers concurrently. A failure becomes one sentence with the fix.

use crate::{
    config::{Key, ProviderConfig, Settings, loopback_port},
    screen::strip_os_error,
    wiring,
};
use futures::future::join_all;
use provider::{Error, RemoteProvider, remote::ModelInfo};
use std::time::Duration;

/// The timeout for the model list of a provider.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// The model list of a provider, or why it has none.
pub(crate) struct Report<'a> {
    pub(crate) provider: &'a ProviderConfig,
    /// The models, or the problem with its fix.
    pub(crate) offers: Result<Vec<ModelInfo>, String>,
}

/// Reports on the configured providers, and on those of this machine that answer.
pub(crate) async fn survey(settings: &Settings) -> Vec<Report<'_>> {
    let named: Vec<&str> = settings
        .model
        .iter()
        .chain(&settings.fallback)
        .filter_map(|model| settings.providers.split(&model.name))
        .map(|(provider, _)| provider.name.as_str())
        .collect();
    let wanted = |provider: &ProviderConfig| provider.configured || named.contains(&provider.name.as_str());
    let local = |provider: &ProviderConfig| {
        settings.discover && settings.providers.local().any(|(name, _)| name == provider.name)
    };
    let queried = settings.providers.iter().filter(|provider| wanted(provider) || local(provider));
    let reports = join_all(queried.map(report)).await;
    reports.into_iter().filter(|report| wanted(report.provider) || report.offers.is_ok()).collect()
}

pub(crate) async fn report(provider: &ProviderConfig) -> Report<'_> {
    Report { provider, offers: query(provider).await }
}

async fn query(provider: &ProviderConfig) -> Result<Vec<ModelInfo>, String> {
    let endpoint = wiring::endpoint(provider).map_err(|error| error.to_string())?;
    let remote = RemoteProvider::new(endpoint);
    match tokio::time::timeout(LIST_TIMEOUT, remote.models()).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => Err(format!("{}; {}", strip_os_error(&error.to_string()), fix(provider, &error))),
        Err(_) => Err(format!(
            "{} does not answer within {} s; {}",
            provider.name,
            LIST_TIMEOUT.as_secs(),
            check_address(provider)
        )),
    }
}

fn fix(provider: &ProviderConfig, error: &Error) -> String {
    let name = &provider.name;
    match error {
        Error::Auth { .. } | Error::Quota { .. } => match &provider.key {
            Key::Missing(variables) => format!("set {} to a key of yours", variables.join(" or ")),
            Key::Filled(_) => {
                format!("give it another key, by its variable or as `key` in [providers.{name}]")
            }
            Key::NotNeeded => format!("give it a key, as `key` in [providers.{name}]"),
        },
        Error::RateLimited { .. } => "try again later".to_owned(),
        _ if loopback_port(&provider.base_url).is_some() => {
            format!("start the server, or set its address as `baseUrl` in [providers.{name}]")
        }
        _ => check_address(provider),
    }
}

fn check_address(provider: &ProviderConfig) -> String {
    format!("check the network, and `baseUrl` in [providers.{}]", provider.name)
}
