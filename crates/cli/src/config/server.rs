//! `[server]` in `lango.toml`: who may reach the server, by which names, and how much of it they may have.

use super::ConfigError;
use serde::Deserialize;
use server::{auth::JwtConfig, host_policy::HostPort, limits::ServerLimits, proxy::IpNetwork};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ServerSection {
    /// Names that a `Host` header may have beside those of this machine, such as `agents.example` or `agents.example:8443`.
    #[serde(alias = "allowed_hosts")]
    allowed_hosts: Vec<String>,
    /// Origins of other sites whose pages may call the API, such as `https://app.example`.
    #[serde(alias = "allowed_origins")]
    allowed_origins: Vec<String>,
    /// Addresses or networks of reverse proxies whose `X-Forwarded-Host` and `X-Forwarded-Proto` count.
    #[serde(alias = "trusted_proxies")]
    trusted_proxies: Vec<String>,
    /// PEM file with the certificate chain, the server's own certificate first. Needs `tlsKey`.
    #[serde(alias = "tls_cert")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key. Needs `tlsCert`.
    #[serde(alias = "tls_key")]
    tls_key: Option<PathBuf>,
    /// Largest body of a request, in bytes.
    ///
    /// Default: `20971520`
    #[serde(alias = "max_body_bytes")]
    max_body_bytes: Option<usize>,
    /// Largest head of a request, in bytes.
    ///
    /// Default: `65536`
    #[serde(alias = "max_head_bytes")]
    max_head_bytes: Option<usize>,
    /// How long a client may take to send the head of a request, in seconds.
    ///
    /// Default: `30`
    #[serde(alias = "head_timeout_seconds")]
    head_timeout_seconds: Option<u32>,
    /// Connections at a time.
    ///
    /// Default: `1024`
    #[serde(alias = "max_connections")]
    max_connections: Option<usize>,
    /// Requests of each token in a minute. 0 means no limit; the token of this machine is not counted.
    ///
    /// Default: `6000`
    #[serde(alias = "requests_per_minute")]
    requests_per_minute: Option<u32>,
    /// Runs of each user at a time. Runs of administrators are not counted.
    ///
    /// Default: `64`
    #[serde(alias = "runs_per_user")]
    runs_per_user: Option<usize>,
    /// Accepts JWTs of an issuer as tokens of its users. Algorithms: RS256, ES256 and EdDSA.
    jwt: Option<JwtSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JwtSection {
    /// The issuer's key set: a file, or an `https://` URL, which is fetched again if a token names an unknown key.
    jwks: String,
    /// Required value of the claim `iss`.
    issuer: String,
    /// Required value of the claim `aud`, or one of its values.
    audience: String,
    /// The claim that names the user.
    ///
    /// Default: `"sub"`
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

impl ServerSection {
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

impl JwtSection {
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
