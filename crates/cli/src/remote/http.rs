//! Requests to a server, with the token that lets us in.

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

const CONNECT: Duration = Duration::from_secs(10);
/// A request that found no server is repeated after these times.
const AGAIN: [Duration; 3] = [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];
/// The longest refusal that is shown, in characters.
const REFUSAL: usize = 400;

pub(super) struct Http {
    client: Client,
    address: Address,
    token: Option<HeaderValue>,
}

impl Http {
    pub(super) fn new(settings: &Settings, address: &Address) -> anyhow::Result<Self> {
        let client = build_client(address.url(), &[], CONNECT).map_err(|error| anyhow!(error))?;
        Ok(Self { client, token: token(settings, address)?, address: address.clone() })
    }

    pub(super) fn shown(&self) -> &str {
        self.address.shown()
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.shown()));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.send(Method::GET, path, None).await?;
        self.read(answer).await
    }

    /// As [`get`](Self::get), for what may not be there.
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

    /// Posts, and again if the connection is lost on the way; the server does it once.
    pub(super) async fn send_once(&self, path: &str, body: &Value) -> anyhow::Result<Response> {
        let (key, body) = (uuid::Uuid::new_v4().to_string(), body.to_string());
        let mut waits = AGAIN.into_iter();
        loop {
            let request = self.request(Method::POST, path).header("idempotency-key", &key);
            let sent = request.header("content-type", "application/json").body(body.clone()).send().await;
            match (sent, waits.next()) {
                (Ok(answer), _) => return Ok(answer),
                (Err(error), None) => return Err(self.unreachable(&error)),
                (Err(_), Some(wait)) => tokio::time::sleep(wait).await,
            }
        }
    }

    pub(super) async fn read<T: DeserializeOwned>(&self, answer: Response) -> anyhow::Result<T> {
        let bytes = self.sound(answer).await?.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} does not answer as lango does", self.shown()))
    }

    /// The answer, unless it is a refusal.
    pub(super) async fn sound(&self, answer: Response) -> anyhow::Result<Response> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.bytes().await.unwrap_or_default();
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = match &told["detail"] {
            Value::String(text) => text.clone(),
            Value::Null => status.to_string(),
            other => other.to_string(),
        };
        let detail: String = detail.chars().take(REFUSAL).collect();
        if status == StatusCode::UNAUTHORIZED {
            bail!("{} does not let us in: {detail}; {}", self.shown(), self.way_in());
        }
        bail!("{} refused: {detail}", self.shown())
    }

    fn way_in(&self) -> &'static str {
        if self.address.is_here() && self.token.is_some() {
            "is it this user's server, with the same data directory?"
        } else {
            "put a token of `lango token add` into LANGO_SERVER_TOKEN"
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        anyhow!("{} cannot be reached: {}; lango serve starts a server", self.shown(), root_cause(error))
    }
}

/// The token that was given, or this machine's own for a server on it.
fn token(settings: &Settings, address: &Address) -> anyhow::Result<Option<HeaderValue>> {
    let given = settings.server_token.as_ref().map(|token| token.reveal().to_owned());
    if given.is_some() && !address.is_here() && !address.is_encrypted() {
        bail!("a token would travel in the clear to {}: use https", address.shown());
    }
    let own = || -> anyhow::Result<Option<String>> {
        if !address.is_here() {
            return Ok(None);
        }
        Ok(server::auth::local_token::load(&settings.home)?.map(|token| token.reveal().to_owned()))
    };
    let Some(token) = given.map_or_else(own, |given| Ok(Some(given)))? else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| anyhow!("the token has characters that no token has; see LANGO_SERVER_TOKEN"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}
