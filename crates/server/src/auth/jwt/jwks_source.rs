//! Loads the keys of an issuer. A file is reloaded when it changes; a URL is fetched on demand, at a limited rate.

use super::{super::private_file::FileRevision, JwkSet};
use reqwest::{Client, Url, redirect::Policy};
use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Mutex, time::Instant};

/// How long fetched keys are cached.
const CACHE_TIME: Duration = Duration::from_mins(10);
/// Minimum time between two fetches for an unknown key: clients can invent key ids.
const REFETCH_INTERVAL: Duration = Duration::from_secs(30);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a JWKS in bytes.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    #[error("{} cannot be read: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is not a JWKS: {message}", path.display())]
    Content { path: PathBuf, message: String },
    #[error("{0} is not an https URL; keys fetched over http can be forged")]
    Insecure(String),
    #[error("cannot create an HTTP client for {url}: {source}")]
    Client { url: String, source: reqwest::Error },
}

#[derive(Debug)]
pub(super) struct JwksSource {
    location: JwksLocation,
    /// Held during a fetch, so that concurrent requests share it.
    cache: Mutex<CachedJwks>,
}

#[derive(Debug)]
enum JwksLocation {
    File(PathBuf),
    Url { url: Url, client: Client },
}

#[derive(Debug, Default)]
struct CachedJwks {
    keys: Arc<JwkSet>,
    /// Of a file.
    revision: Option<FileRevision>,
    /// The time of the last fetch.
    fetched: Option<Instant>,
}

impl JwksSource {
    pub(super) fn open(jwks: &str) -> Result<Self, JwksError> {
        let location = match Url::parse(jwks) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url_location(url)?,
            Ok(_) | Err(_) => JwksLocation::File(PathBuf::from(jwks)),
        };
        let mut cache = CachedJwks::default();
        if let JwksLocation::File(path) = &location {
            cache.reload(path)?;
        }
        Ok(Self { location, cache: Mutex::new(cache) })
    }

    /// The cached keys, reloaded if they are outdated.
    pub(super) async fn keys(&self) -> Arc<JwkSet> {
        self.keys_within(CACHE_TIME).await
    }

    /// The keys after a token named an unknown one.
    pub(super) async fn refreshed_keys(&self) -> Arc<JwkSet> {
        self.keys_within(REFETCH_INTERVAL).await
    }

    /// Keys that are at most `age` old, unless they cannot be loaded.
    async fn keys_within(&self, age: Duration) -> Arc<JwkSet> {
        let mut cache = self.cache.lock().await;
        match &self.location {
            // A file that becomes invalid leaves the cached keys in use.
            JwksLocation::File(path) => {
                let _ = cache.reload(path);
            }
            JwksLocation::Url { url, client } => {
                let max_age = if cache.keys.is_empty() { REFETCH_INTERVAL.min(age) } else { age };
                if cache.fetched.is_none_or(|fetched| fetched.elapsed() >= max_age) {
                    cache.fetched = Some(Instant::now());
                    if let Some(keys) = fetch(client, url).await {
                        cache.keys = Arc::new(keys);
                    }
                }
            }
        }
        Arc::clone(&cache.keys)
    }
}

impl CachedJwks {
    fn reload(&mut self, path: &Path) -> Result<(), JwksError> {
        let file_error = |source| JwksError::File { path: path.to_path_buf(), source };
        let revision = super::super::private_file::revision(path).map_err(file_error)?;
        if self.revision.is_none() || self.revision != revision {
            let text = fs::read(path).map_err(file_error)?;
            let keys = JwkSet::parse(&text).map_err(|error| JwksError::Content {
                path: path.to_path_buf(),
                message: error.to_string(),
            })?;
            *self = Self { keys: Arc::new(keys), revision, fetched: None };
        }
        Ok(())
    }
}

fn url_location(url: Url) -> Result<JwksLocation, JwksError> {
    let is_local = is_loopback(&url);
    if url.scheme() == "http" && !is_local {
        return Err(JwksError::Insecure(url.to_string()));
    }
    crate::tls::install_crypto();
    let builder = Client::builder().timeout(FETCH_TIMEOUT).redirect(Policy::none());
    let builder = if is_local { builder.no_proxy() } else { builder };
    // Over http no certificate is checked, so none are loaded.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    let client = builder.build().map_err(|source| JwksError::Client { url: url.to_string(), source })?;
    Ok(JwksLocation::Url { url, client })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// `None` on any failure: the cached keys stay in use.
async fn fetch(client: &Client, url: &Url) -> Option<JwkSet> {
    let mut response = client.get(url.clone()).send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return None;
        }
    }
    JwkSet::parse(&body).ok().filter(|keys| !keys.is_empty())
}
