//! Loads the keys of an issuer. A file is reloaded when it changes; a URL is fetched on demand, at a limited rate.
//!
//! **Invariant.** At most one fetch is in progress, and at most one starts per [`REFETCH_INTERVAL`]. Only tokens whose key is not cached wait for it.

use super::JwkSet;
use file_stamp::FileStamp;
use lock::LockExt;
use reqwest::{Client, Url, redirect::Policy};
use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long fetched keys are used before they are fetched again in the background.
const CACHE_TIME: Duration = Duration::from_mins(10);
/// How long fetched keys are used without waiting for new ones. Older keys, of a server that was idle, may have been revoked.
const MAX_STALENESS: Duration = Duration::from_mins(20);
/// Minimum time between the starts of two fetches: clients can invent key ids.
const REFETCH_INTERVAL: Duration = Duration::from_secs(30);
/// The deadline of a fetch, and of the tokens that wait for it.
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
pub(super) enum JwksSource {
    File { path: PathBuf, cache: Mutex<FileKeys> },
    Url(Arc<RemoteJwks>),
}

/// The keys of a file.
#[derive(Debug)]
pub(super) struct FileKeys {
    report: fn(&str),
    keys: Arc<JwkSet>,
    stamp: Option<FileStamp>,
}

#[derive(Debug)]
pub(super) struct RemoteJwks {
    url: Url,
    client: Client,
    report: fn(&str),
    /// Never held across an await.
    cache: Mutex<FetchedKeys>,
}

#[derive(Debug, Default)]
struct FetchedKeys {
    keys: Arc<JwkSet>,
    /// Start time of the last fetch, and a receiver for its end.
    last_fetch: Option<(Instant, FetchEnd)>,
}

/// Closed when a fetch has ended, successfully or not.
type FetchEnd = watch::Receiver<()>;

impl JwksSource {
    pub(super) fn open(jwks: &str, report: fn(&str)) -> Result<Self, JwksError> {
        match Url::parse(jwks) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                let client = jwks_client(&url)?;
                Ok(Self::Url(Arc::new(RemoteJwks { url, client, report, cache: Mutex::default() })))
            }
            Ok(_) | Err(_) => {
                let path = PathBuf::from(jwks);
                let mut cache = FileKeys { report, keys: Arc::default(), stamp: None };
                cache.reload(&path)?;
                Ok(Self::File { path, cache: Mutex::new(cache) })
            }
        }
    }

    /// The cached keys. Waits only if there are none, or if they are too old.
    pub(super) async fn keys(&self) -> Arc<JwkSet> {
        match self {
            Self::File { path, cache } => cache.locked().current(path),
            Self::Url(remote) => remote.keys().await,
        }
    }

    /// The keys after a token named an unknown one: those of the fetch in progress, or of a new one unless the last is too recent.
    pub(super) async fn refreshed_keys(&self) -> Arc<JwkSet> {
        match self {
            Self::File { path, cache } => cache.locked().current(path),
            Self::Url(remote) => remote.keys_after(remote.fetch_if_older_than(REFETCH_INTERVAL)).await,
        }
    }
}

impl RemoteJwks {
    async fn keys(self: &Arc<Self>) -> Arc<JwkSet> {
        let (is_empty, age) = {
            let cache = self.cache.locked();
            (cache.keys.is_empty(), cache.last_fetch.as_ref().map(|(started, _)| started.elapsed()))
        };
        let end = self.fetch_if_older_than(if is_empty { REFETCH_INTERVAL } else { CACHE_TIME });
        if is_empty || age.is_none_or(|age| age >= MAX_STALENESS) {
            return self.keys_after(end).await;
        }
        Arc::clone(&self.cache.locked().keys)
    }

    /// Starts a fetch unless one is in progress or the last one started less than `age` ago. Returns the fetch in progress.
    fn fetch_if_older_than(self: &Arc<Self>, age: Duration) -> Option<FetchEnd> {
        let mut cache = self.cache.locked();
        if let Some((started, end)) = &cache.last_fetch {
            // The channel is closed when the fetch has ended.
            if end.has_changed().is_ok() {
                return Some(end.clone());
            }
            if started.elapsed() < age {
                return None;
            }
        }
        let (ended, end) = watch::channel(());
        cache.last_fetch = Some((Instant::now(), end.clone()));
        drop(cache);
        // A separate task: the client that caused the fetch may disconnect.
        let remote = Arc::clone(self);
        tokio::spawn(async move {
            if let Some((keys, problems)) = fetch(&remote.client, &remote.url).await {
                report_all(remote.report, remote.url.as_str(), &problems);
                remote.cache.locked().keys = Arc::new(keys);
            }
            drop(ended);
        });
        Some(end)
    }

    /// The keys at the end of a fetch, or at the deadline.
    async fn keys_after(&self, end: Option<FetchEnd>) -> Arc<JwkSet> {
        if let Some(mut end) = end {
            let _ = timeout(FETCH_TIMEOUT, end.changed()).await;
        }
        Arc::clone(&self.cache.locked().keys)
    }
}

impl FileKeys {
    /// The keys of the file. A file that becomes invalid leaves the cached keys in use.
    fn current(&mut self, path: &Path) -> Arc<JwkSet> {
        let _ = self.reload(path);
        Arc::clone(&self.keys)
    }

    fn reload(&mut self, path: &Path) -> Result<(), JwksError> {
        let file_error = |source| JwksError::File { path: path.to_path_buf(), source };
        let stamp = super::super::private_file::stamp(path).map_err(file_error)?;
        if self.stamp.is_none() || self.stamp != stamp {
            let text = fs::read(path).map_err(file_error)?;
            let (keys, problems) = JwkSet::parse(&text).map_err(|error| JwksError::Content {
                path: path.to_path_buf(),
                message: error.to_string(),
            })?;
            report_all(self.report, &path.display().to_string(), &problems);
            *self = Self { report: self.report, keys: Arc::new(keys), stamp };
        }
        Ok(())
    }
}

fn report_all(report: fn(&str), source: &str, problems: &[String]) {
    for problem in problems {
        report(&format!("JWKS {source}: {problem}"));
    }
}

fn jwks_client(url: &Url) -> Result<Client, JwksError> {
    let is_local = is_loopback(url);
    if url.scheme() == "http" && !is_local {
        return Err(JwksError::Insecure(url.to_string()));
    }
    crate::tls::install_crypto();
    let builder = Client::builder().timeout(FETCH_TIMEOUT).redirect(Policy::none());
    let builder = if is_local { builder.no_proxy() } else { builder };
    // Over http no certificate is checked, so none are loaded.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|source| JwksError::Client { url: url.to_string(), source })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// `None` on any failure: the cached keys stay in use.
async fn fetch(client: &Client, url: &Url) -> Option<(JwkSet, Vec<String>)> {
    let mut response = client.get(url.clone()).send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return None;
        }
    }
    JwkSet::parse(&body).ok().filter(|(keys, _)| !keys.is_empty())
}
