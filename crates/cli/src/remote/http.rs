//! Authenticated requests to a server.

use super::Address;
use crate::config::Settings;
use anyhow::{Context, anyhow, bail};
use provider::http::{build_client, root_cause};
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{AUTHORIZATION, HeaderValue},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The delays before retries of a request that did not reach the server.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];
/// The longest error detail that is shown, in characters.
const MAX_DETAIL: usize = 400;

pub(super) struct Http {
    client: Client,
    address: Address,
    token: Option<HeaderValue>,
}

impl Http {
    pub(super) fn new(settings: &Settings, address: &Address) -> anyhow::Result<Self> {
        let client = build_client(address.url(), &[], CONNECT_TIMEOUT).map_err(|error| anyhow!(error))?;
        Ok(Self { client, token: token(settings, address)?, address: address.clone() })
    }

    pub(super) fn address(&self) -> &str {
        self.address.as_str()
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address()));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.send(Method::GET, path, None).await?;
        self.read(answer).await
    }

    /// Like [`get`](Self::get), but returns `None` for 404.
    pub(super) async fn find<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        let answer = self.send(Method::GET, path, None).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.read(answer).await.map(Some)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Response> {
        let request = self.request(method, path);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    /// Posts with an idempotency key, and retries if the connection is lost. The server executes the request once.
    pub(super) async fn send_once(&self, path: &str, body: &Value) -> anyhow::Result<Response> {
        let (key, body) = (uuid::Uuid::new_v4().to_string(), body.to_string());
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let request = self.request(Method::POST, path).header("idempotency-key", &key);
            let sent = request.header("content-type", "application/json").body(body.clone()).send().await;
            match (sent, delays.next()) {
                (Ok(answer), _) => return Ok(answer),
                (Err(error), None) => return Err(self.unreachable(&error)),
                (Err(_), Some(delay)) => tokio::time::sleep(delay).await,
            }
        }
    }

    pub(super) async fn read<T: DeserializeOwned>(&self, answer: Response) -> anyhow::Result<T> {
        let bytes =
            self.check_status(answer).await?.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("the response of {} is not that of a lango server", self.address()))
    }

    /// Returns the response if its status is a success, and else its error detail.
    pub(super) async fn check_status(&self, answer: Response) -> anyhow::Result<Response> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = match &body["detail"] {
            Value::String(text) => text.clone(),
            Value::Null => status.to_string(),
            other => other.to_string(),
        };
        let detail: String = detail.chars().take(MAX_DETAIL).collect();
        if status == StatusCode::UNAUTHORIZED {
            bail!("{} denied access: {detail}; {}", self.address(), self.auth_hint());
        }
        bail!("{} refused: {detail}", self.address())
    }

    fn auth_hint(&self) -> &'static str {
        if self.address.is_local() && self.token.is_some() {
            "is it this user's server, with the same data directory?"
        } else {
            "set LANGO_SERVER_TOKEN to a token of `lango token add`"
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        anyhow!("{} cannot be reached: {}; lango serve starts a server", self.address(), root_cause(error))
    }
}

/// The configured token, or the local token if the server is on this machine.
fn token(settings: &Settings, address: &Address) -> anyhow::Result<Option<HeaderValue>> {
    let configured = settings.server_token.as_ref().map(|token| token.reveal().to_owned());
    if configured.is_some() && !address.is_local() && !address.is_encrypted() {
        bail!("the token would be sent unencrypted to {}: use https", address.as_str());
    }
    let local = || -> anyhow::Result<Option<String>> {
        if !address.is_local() {
            return Ok(None);
        }
        Ok(server::auth::local_token::load(&settings.home)?.map(|token| token.reveal().to_owned()))
    };
    let Some(token) = configured.map_or_else(local, |token| Ok(Some(token)))? else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| anyhow!("the token has invalid characters; check LANGO_SERVER_TOKEN"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}
