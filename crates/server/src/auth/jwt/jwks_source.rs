//! Where an issuer's keys come from. A file is read when it has changed; an address is asked when it is needed, and not more
//! often than it helps.

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

/// Keys of an address are asked for again after this.
const FRESH: Duration = Duration::from_mins(10);
/// A key that is not known makes us ask again, but strangers cannot make us ask all the time.
const PAUSE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    #[error("{} cannot be read: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is no JWKS: {message}", path.display())]
    Content { path: PathBuf, message: String },
    #[error("{0} is not an https address; keys that come in the clear can be anybody's")]
    Clear(String),
    #[error("the client for {url} cannot be made: {source}")]
    Client { url: String, source: reqwest::Error },
}

#[derive(Debug)]
pub(super) struct JwksSource {
    place: JwksLocation,
    /// Whoever asks first asks for all.
    seen: Mutex<CachedJwks>,
}

#[derive(Debug)]
enum JwksLocation {
    File(PathBuf),
    Address { url: Url, client: Client },
}

#[derive(Debug, Default)]
struct CachedJwks {
    keys: Arc<JwkSet>,
    stamp: Option<FileRevision>,
    asked: Option<Instant>,
}

impl JwksSource {
    pub(super) fn open(jwks: &str) -> Result<Self, JwksError> {
        let place = match Url::parse(jwks) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => address(url)?,
            Ok(_) | Err(_) => JwksLocation::File(PathBuf::from(jwks)),
        };
        let mut seen = CachedJwks::default();
        if let JwksLocation::File(path) = &place {
            seen.look(path)?;
        }
        Ok(Self { place, seen: Mutex::new(seen) })
    }

    /// The keys as they are known; of an address, not older than they may be.
    pub(super) async fn keys(&self) -> Arc<JwkSet> {
        self.after(FRESH).await
    }

    /// The keys, asked for again because one was missing.
    pub(super) async fn newer(&self) -> Arc<JwkSet> {
        self.after(PAUSE).await
    }

    async fn after(&self, age: Duration) -> Arc<JwkSet> {
        let mut seen = self.seen.lock().await;
        match &self.place {
            // A file that is spoilt while we run leaves the keys as they were.
            JwksLocation::File(path) => {
                let _ = seen.look(path);
            }
            JwksLocation::Address { url, client } => {
                let wait = if seen.keys.is_empty() { PAUSE.min(age) } else { age };
                if seen.asked.is_none_or(|asked| asked.elapsed() >= wait) {
                    seen.asked = Some(Instant::now());
                    if let Some(keys) = fetch(client, url).await {
                        seen.keys = Arc::new(keys);
                    }
                }
            }
        }
        Arc::clone(&seen.keys)
    }
}

impl CachedJwks {
    fn look(&mut self, path: &Path) -> Result<(), JwksError> {
        let failed = |source| JwksError::File { path: path.to_path_buf(), source };
        let stamp = super::super::private_file::stamp(path).map_err(failed)?;
        if self.stamp.is_none() || self.stamp != stamp {
            let text = fs::read(path).map_err(failed)?;
            let keys = JwkSet::parse(&text).map_err(|error| JwksError::Content {
                path: path.to_path_buf(),
                message: error.to_string(),
            })?;
            *self = Self { keys: Arc::new(keys), stamp, asked: None };
        }
        Ok(())
    }
}

fn address(url: Url) -> Result<JwksLocation, JwksError> {
    let is_here = is_loopback(&url);
    if url.scheme() == "http" && !is_here {
        return Err(JwksError::Clear(url.to_string()));
    }
    crate::tls::install_crypto();
    let builder = Client::builder().timeout(PATIENCE).redirect(Policy::none());
    let builder = if is_here { builder.no_proxy() } else { builder };
    // In the clear there is nobody to be certain of.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    let client = builder.build().map_err(|source| JwksError::Client { url: url.to_string(), source })?;
    Ok(JwksLocation::Address { url, client })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// `None` whatever went wrong: the keys that are known stay good.
async fn fetch(client: &Client, url: &Url) -> Option<JwkSet> {
    let mut answer = client.get(url.clone()).send().await.ok()?.error_for_status().ok()?;
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await.ok()? {
        text.extend_from_slice(&piece);
        if text.len() > LARGEST {
            return None;
        }
    }
    JwkSet::parse(&text).ok().filter(|keys| !keys.is_empty())
}
