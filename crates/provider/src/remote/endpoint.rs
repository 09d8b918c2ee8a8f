//! What the configuration says of a server, and the link that is made of it.

use super::{BaseUrl, EndpointClient};
use crate::{
    WireApi,
    http::{self, Framing, SecretString},
};
use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{fmt, path::PathBuf, time::Duration};

#[derive(Clone)]
pub struct ProviderEndpoint {
    /// As people write it before the slash of a model's name.
    pub name: String,
    pub api: WireApi,
    pub base_url: String,
    pub key: Option<SecretString>,
    /// Sent with every request; they win over those of the format.
    pub headers: Vec<(String, SecretString)>,
    /// OpenAI's name for who pays.
    pub organization: Option<String>,
    /// Certificates in PEM that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    pub connect_timeout: Duration,
    /// How long the server may be silent, before its answer and in it. An answer as a whole has no limit.
    pub idle_timeout: Duration,
}

impl ProviderEndpoint {
    pub fn new(name: impl Into<String>, api: WireApi, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            api,
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            organization: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(10),
            // A model on a slow machine reads a long conversation in silence.
            idle_timeout: Duration::from_mins(5),
        }
    }

    /// What no message may show: the key, the headers word by word, and what an address hides.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let words = self.headers.iter().flat_map(|(_, value)| value.reveal().split_whitespace());
        // A short value, `true` or a name, is no secret.
        let mut secrets: Vec<SecretString> =
            words.filter(|word| word.len() >= 8).map(SecretString::new).collect();
        secrets.extend(self.key.clone());
        if let Ok(url) = Url::parse(self.base_url.trim()) {
            secrets.extend(
                url.query_pairs()
                    .filter(|(_, value)| value.len() >= 16)
                    .map(|(_, value)| SecretString::new(value)),
            );
        }
        secrets
    }

    pub(super) fn link(&self) -> Result<EndpointClient, String> {
        let address = BaseUrl::parse(self.api, &self.base_url)?;
        let extra = self.ca_file.as_deref().map(http::read_certificates).transpose()?.unwrap_or_default();
        let client = http::build_client(address.base(), &extra, self.connect_timeout)?;
        Ok(EndpointClient { address, client, headers: self.all_headers()? })
    }

    fn all_headers(&self) -> Result<HeaderMap, String> {
        let accept = match self.api.framing() {
            Framing::Sse => "text/event-stream, application/json",
            Framing::JsonLines => "application/x-ndjson, application/json",
        };
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static(accept)),
        ]);
        if self.api == WireApi::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(organization) = &self.organization {
            headers.insert("openai-organization", hidden("organization", organization)?);
        }
        if let Some(key) = self.key.as_ref().filter(|key| !key.is_empty()) {
            let (name, value) = self.key_header(key);
            headers.insert(name, hidden("the key", &value)?);
        }
        for (name, value) in &self.headers {
            let wrong = |_| format!("`{name}` cannot be the name of a header");
            headers.insert(HeaderName::try_from(name).map_err(wrong)?, hidden(name, value.reveal())?);
        }
        Ok(headers)
    }

    fn key_header(&self, key: &SecretString) -> (HeaderName, String) {
        match self.api {
            WireApi::Chat | WireApi::Responses | WireApi::Ollama => {
                (AUTHORIZATION, format!("Bearer {}", key.reveal()))
            }
            WireApi::Anthropic => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
            // In the address it would end in logs.
            WireApi::Gemini => (HeaderName::from_static("x-goog-api-key"), key.reveal().to_owned()),
        }
    }
}

/// A header's value that no log shows.
fn hidden(what: &str, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| format!("{what} has a character that cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Without the address, which may hold a secret.
impl fmt::Debug for ProviderEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).field("api", &self.api).finish_non_exhaustive()
    }
}
