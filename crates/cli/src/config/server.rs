//! `[server]` in `lango.toml`: host names, origins, TLS, limits and JWT of the server.

use super::ConfigError;
use serde::Deserialize;
use server::{
    auth::JwtConfig, connection::pace::MinRate, host_policy::HostPort, limits::ServerLimits, proxy::IpNetwork,
};
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
    /// Addresses or networks of reverse proxies whose `X-Forwarded-Host`, `X-Forwarded-Proto` and `X-Forwarded-For` count. Their
    /// connections are not limited by address.
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
    /// Largest head of a request, in bytes. A larger one is answered 431.
    ///
    /// Default: `65536`
    #[serde(alias = "max_head_bytes")]
    max_head_bytes: Option<usize>,
    /// How long a client may take to send the head of a request, and how long an unused connection stays open, in seconds.
    ///
    /// Default: `30`
    #[serde(alias = "head_timeout_seconds")]
    head_timeout_seconds: Option<u32>,
    /// How long a client may take to send the body of a request, in seconds. Then it gets 408.
    ///
    /// Default: `300`
    #[serde(alias = "body_timeout_seconds")]
    body_timeout_seconds: Option<u32>,
    /// How long a client may send nothing of a body, or read nothing of a response that waits for it, in seconds. A stream without
    /// new events is not affected.
    ///
    /// Default: `60`
    #[serde(alias = "stall_timeout_seconds")]
    stall_timeout_seconds: Option<u32>,
    /// The least rate at which a client sends a body and reads a response that waits for it. A slower one gets 408, or is
    /// disconnected. 0 means no minimum.
    ///
    /// Default: `4096`
    #[serde(alias = "min_bytes_per_second")]
    min_bytes_per_second: Option<u32>,
    /// Connections at a time. Above it, connections without a request are closed; if there are none, only `/health` answers.
    ///
    /// Default: `1024`
    #[serde(alias = "max_connections")]
    max_connections: Option<usize>,
    /// Connections of each address, or IPv6 network /64, that wait for a request for more than a second or have one without a valid
    /// token. Behind a trusted proxy, requests without a valid token at a time. At the limit, valid tokens and `/health` are served. 0
    /// means no limit.
    ///
    /// Default: `64`
    #[serde(alias = "connections_per_address")]
    connections_per_address: Option<usize>,
    /// Requests of each user at a time, open event streams included. 0 means no limit; the token of this machine is not
    /// counted.
    ///
    /// Default: `256`
    #[serde(alias = "requests_per_user")]
    requests_per_user: Option<usize>,
    /// Memory for request bodies, in bytes: one half for bodies above 16 KB that arrive, of which each user may have half, the other
    /// for those that are processed. Further ones wait, and get 503 after 20 seconds.
    ///
    /// Default: `50331648`
    #[serde(alias = "max_body_memory_bytes")]
    max_body_memory_bytes: Option<usize>,
    /// Memory for events, states and artifacts above 256 KB that wait for their clients, in bytes. Each user may have half of it;
    /// further ones wait.
    ///
    /// Default: `33554432`
    #[serde(alias = "max_response_memory_bytes")]
    max_response_memory_bytes: Option<usize>,
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
    /// Stored sessions of each user in all apps. A further one is answered 403. 0 means no limit.
    ///
    /// Default: `1000000`
    #[serde(alias = "sessions_per_user")]
    sessions_per_user: Option<u64>,
    /// Accepts JWTs of an issuer as tokens of its users. Algorithms: RS256, PS256, ES256, ES384 and EdDSA.
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

/// The resolved server settings.
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
    pub(super) fn resolve(self, file: &Path, base: &Path) -> Result<ServerSettings, ConfigError> {
        let invalid = |message: String| ConfigError::Value { path: file.to_path_buf(), message };
        let limits = self.limits();
        let host = |text: &String| {
            let fix = "is not a name like agents.example or agents.example:8443";
            HostPort::parse(text).ok_or_else(|| invalid(format!("server.allowedHosts: {text:?} {fix}")))
        };
        let network =
            |text: &String| text.parse().map_err(|error| invalid(format!("server.trustedProxies: {error}")));
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(cert), Some(key)) => Some((base.join(cert), base.join(key))),
            (None, None) => None,
            (Some(_), None) => return Err(invalid("server.tlsCert requires server.tlsKey".to_owned())),
            (None, Some(_)) => return Err(invalid("server.tlsKey requires server.tlsCert".to_owned())),
        };
        if let Some(origin) = self.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            let fix = "is not an origin like https://app.example";
            return Err(invalid(format!("server.allowedOrigins: {origin:?} {fix}")));
        }
        Ok(ServerSettings {
            hosts: self.allowed_hosts.iter().map(host).collect::<Result<_, _>>()?,
            proxies: self.trusted_proxies.iter().map(network).collect::<Result<_, _>>()?,
            origins: self.allowed_origins,
            tls,
            limits,
            jwt: self.jwt.map(|jwt| jwt.resolve(base)),
        })
    }

    fn limits(&self) -> ServerLimits {
        let default = ServerLimits::default();
        let seconds = |configured: Option<u32>, default: Duration| {
            configured.map_or(default, |seconds| Duration::from_secs(seconds.max(1).into()))
        };
        ServerLimits {
            body: self.max_body_bytes.unwrap_or(default.body),
            head: self.max_head_bytes.unwrap_or(default.head),
            head_timeout: seconds(self.head_timeout_seconds, default.head_timeout),
            body_timeout: seconds(self.body_timeout_seconds, default.body_timeout),
            min_rate: MinRate {
                bytes_per_second: self
                    .min_bytes_per_second
                    .map_or(default.min_rate.bytes_per_second, u64::from),
                grace: seconds(self.stall_timeout_seconds, default.min_rate.grace),
            },
            connections: self.max_connections.unwrap_or(default.connections).max(1),
            connections_per_address: self.connections_per_address.unwrap_or(default.connections_per_address),
            requests_per_user: self.requests_per_user.unwrap_or(default.requests_per_user),
            body_memory: self.max_body_memory_bytes.unwrap_or(default.body_memory),
            response_memory: self.max_response_memory_bytes.unwrap_or(default.response_memory),
            requests_per_minute: self.requests_per_minute.unwrap_or(default.requests_per_minute),
            runs_per_user: self.runs_per_user.unwrap_or(default.runs_per_user),
            sessions_per_user: self.sessions_per_user.unwrap_or(default.sessions_per_user),
        }
    }
}

impl JwtSection {
    fn resolve(self, base: &Path) -> JwtConfig {
        let is_url = self.jwks.starts_with("http://") || self.jwks.starts_with("https://");
        JwtConfig {
            jwks: if is_url { self.jwks } else { base.join(self.jwks).to_string_lossy().into_owned() },
            issuer: self.issuer,
            audience: self.audience,
            user_claim: self.user_claim.unwrap_or_else(|| "sub".to_owned()),
        }
    }
}

/// Whether the text is an origin as browsers send it: scheme, lowercase host, optional port, and no path.
fn is_origin(text: &str) -> bool {
    let name = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    name.is_some_and(|name| {
        HostPort::parse(name).is_some() && name == name.to_lowercase() && !name.contains('*')
    })
}
