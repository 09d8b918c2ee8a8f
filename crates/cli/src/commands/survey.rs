//! Asks providers what they offer, all at once, and says in a sentence what is missing where one does not answer.

use crate::{
    config::{Key, ProviderConfig, Settings, loopback_port},
    screen::without_number,
    wiring,
};
use futures::future::join_all;
use provider::{Error, RemoteProvider, remote::ModelInfo};
use std::time::Duration;

/// How long a provider may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of asking one.
pub(crate) struct Report<'a> {
    pub(crate) provider: &'a ProviderConfig,
    /// The models, or what is missing, with the fix.
    pub(crate) offers: Result<Vec<ModelInfo>, String>,
}

/// Those that are configured, and those on this machine that answer.
pub(crate) async fn survey(settings: &Settings) -> Vec<Report<'_>> {
    let named: Vec<&str> = settings
        .model
        .iter()
        .chain(&settings.fallback)
        .filter_map(|model| settings.providers.split(&model.name))
        .map(|(provider, _)| provider.name.as_str())
        .collect();
    let wanted = |provider: &ProviderConfig| provider.configured || named.contains(&provider.name.as_str());
    let here = |provider: &ProviderConfig| {
        settings.discover && settings.providers.here().any(|(name, _)| name == provider.name)
    };
    let asked = settings.providers.iter().filter(|provider| wanted(provider) || here(provider));
    let reports = join_all(asked.map(report)).await;
    reports.into_iter().filter(|report| wanted(report.provider) || report.offers.is_ok()).collect()
}

pub(crate) async fn report(provider: &ProviderConfig) -> Report<'_> {
    Report { provider, offers: ask(provider).await }
}

async fn ask(provider: &ProviderConfig) -> Result<Vec<ModelInfo>, String> {
    let endpoint = wiring::endpoint(provider).map_err(|error| error.to_string())?;
    let remote = RemoteProvider::new(endpoint);
    match tokio::time::timeout(PATIENCE, remote.models()).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => Err(format!("{}; {}", without_number(&error.to_string()), fix(provider, &error))),
        Err(_) => Err(format!(
            "{} does not answer within {} s; {}",
            provider.name,
            PATIENCE.as_secs(),
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
