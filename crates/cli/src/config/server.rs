//! `[server]` in `lango.toml`: who may reach the server, by which names, and how much of it they may have.

use super::ConfigError;
use serde::Deserialize;
use server::{auth::JwtConfig, host_policy::HostPort, limits::ServerLimits, proxy::IpNetwork};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// As it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Server {
    #[serde(alias = "allowed_hosts")]
    allowed_hosts: Vec<String>,
    #[serde(alias = "allowed_origins")]
    allowed_origins: Vec<String>,
    #[serde(alias = "trusted_proxies")]
    trusted_proxies: Vec<String>,
    #[serde(alias = "tls_cert")]
    tls_cert: Option<PathBuf>,
    #[serde(alias = "tls_key")]
    tls_key: Option<PathBuf>,
    #[serde(alias = "max_body_bytes")]
    max_body_bytes: Option<usize>,
    #[serde(alias = "max_head_bytes")]
    max_head_bytes: Option<usize>,
    #[serde(alias = "head_timeout_seconds")]
    head_timeout_seconds: Option<u32>,
    #[serde(alias = "max_connections")]
    max_connections: Option<usize>,
    #[serde(alias = "requests_per_minute")]
    requests_per_minute: Option<u32>,
    #[serde(alias = "runs_per_user")]
    runs_per_user: Option<usize>,
    jwt: Option<Jwt>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Jwt {
    jwks: String,
    issuer: String,
    audience: String,
    #[serde(alias = "user_claim")]
    user_claim: Option<String>,
}

/// As it is meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSettings {
    pub(crate) hosts: Vec<HostPort>,
    pub(crate) origins: Vec<String>,
    pub(crate) proxies: Vec<IpNetwork>,
    /// The certificates and their key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) limits: ServerLimits,
    pub(crate) jwt: Option<JwtConfig>,
}

impl Server {
    /// Paths are relative to the file.
    pub(super) fn meant(self, file: &Path, base: &Path) -> Result<ServerSettings, ConfigError> {
        let wrong = |message: String| ConfigError::Value { path: file.to_path_buf(), message };
        let limits = self.limits();
        let host = |text: &String| {
            let fix = "is not a name like agents.example or agents.example:8443";
            HostPort::parse(text).ok_or_else(|| wrong(format!("server.allowedHosts: {text:?} {fix}")))
        };
        let network =
            |text: &String| text.parse().map_err(|error| wrong(format!("server.trustedProxies: {error}")));
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(cert), Some(key)) => Some((base.join(cert), base.join(key))),
            (None, None) => None,
            (Some(_), None) => return Err(wrong("server.tlsCert needs server.tlsKey beside it".to_owned())),
            (None, Some(_)) => return Err(wrong("server.tlsKey needs server.tlsCert beside it".to_owned())),
        };
        if let Some(odd) = self.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            let fix = "is not an origin like https://app.example";
            return Err(wrong(format!("server.allowedOrigins: {odd:?} {fix}")));
        }
        Ok(ServerSettings {
            hosts: self.allowed_hosts.iter().map(host).collect::<Result<_, _>>()?,
            proxies: self.trusted_proxies.iter().map(network).collect::<Result<_, _>>()?,
            origins: self.allowed_origins,
            tls,
            limits,
            jwt: self.jwt.map(|jwt| jwt.meant(base)),
        })
    }

    fn limits(&self) -> ServerLimits {
        let usual = ServerLimits::default();
        let timeout = self.head_timeout_seconds.map(|seconds| Duration::from_secs(seconds.max(1).into()));
        ServerLimits {
            body: self.max_body_bytes.unwrap_or(usual.body),
            head: self.max_head_bytes.unwrap_or(usual.head),
            head_timeout: timeout.unwrap_or(usual.head_timeout),
            connections: self.max_connections.unwrap_or(usual.connections).max(1),
            requests_per_minute: self.requests_per_minute.unwrap_or(usual.requests_per_minute),
            runs_per_user: self.runs_per_user.unwrap_or(usual.runs_per_user),
        }
    }
}

impl Jwt {
    fn meant(self, base: &Path) -> JwtConfig {
        let is_address = self.jwks.starts_with("http://") || self.jwks.starts_with("https://");
        JwtConfig {
            jwks: if is_address { self.jwks } else { base.join(self.jwks).to_string_lossy().into_owned() },
            issuer: self.issuer,
            audience: self.audience,
            user_claim: self.user_claim.unwrap_or_else(|| "sub".to_owned()),
        }
    }
}

/// As browsers write them: a scheme, a name in small letters, perhaps a port, and nothing behind it.
fn is_origin(text: &str) -> bool {
    let name = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    name.is_some_and(|name| {
        HostPort::parse(name).is_some() && name == name.to_lowercase() && !name.contains('*')
    })
}
