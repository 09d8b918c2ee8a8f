//! The configuration of a server, and the HTTP client that is built from it.

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
    /// The provider's part of a model name, in front of the slash.
    pub name: String,
    pub api: WireApi,
    pub base_url: String,
    pub key: Option<SecretString>,
    /// Sent with every request; they override the headers of the wire format.
    pub headers: Vec<(String, SecretString)>,
    /// The variables in the extra fields of requests, as they are written between `${` and `}`, with their values.
    pub body_variables: Vec<(String, SecretString)>,
    /// The OpenAI organization that is billed.
    pub organization: Option<String>,
    /// A PEM file with certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    pub connect_timeout: Duration,
    /// The timeout of the response head and of each read. A whole response has no limit.
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
            body_variables: Vec::new(),
            organization: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(10),
            // A local model sends nothing while it processes a long prompt.
            idle_timeout: Duration::from_mins(5),
        }
    }

    /// The URL without user name, query and secrets; empty if it is invalid. It identifies the server in stored data.
    pub fn address(&self) -> String {
        let Ok(url) = Url::parse(self.base_url.trim()) else { return String::new() };
        let address = format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
        http::mask(&address, &self.secrets())
    }

    /// Values to mask in messages: the key, each word of the headers and of the variables in bodies, and the query of the URL.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let values = self.headers.iter().chain(&self.body_variables);
        let header_words = values.flat_map(|(_, value)| value.reveal().split_whitespace());
        // Short values, such as `true`, are not secret.
        let mut secrets: Vec<SecretString> =
            header_words.filter(|word| word.len() >= 8).map(SecretString::new).collect();
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

    pub(super) fn build_client(&self) -> Result<EndpointClient, String> {
        let base_url = BaseUrl::parse(self.api, &self.base_url)?;
        let extra = self.ca_file.as_deref().map(http::read_certificates).transpose()?.unwrap_or_default();
        let client = http::build_client(base_url.base(), &extra, self.connect_timeout)?;
        Ok(EndpointClient { base_url, client, headers: self.header_map()? })
    }

    fn header_map(&self) -> Result<HeaderMap, String> {
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
            headers.insert("openai-organization", sensitive_value("organization", organization)?);
        }
        if let Some(key) = self.key.as_ref().filter(|key| !key.is_empty()) {
            let (name, value) = self.key_header(key);
            headers.insert(name, sensitive_value("the key", &value)?);
        }
        for (name, value) in &self.headers {
            let invalid = |_| format!("`{name}` is not a valid header name");
            headers
                .insert(HeaderName::try_from(name).map_err(invalid)?, sensitive_value(name, value.reveal())?);
        }
        Ok(headers)
    }

    fn key_header(&self, key: &SecretString) -> (HeaderName, String) {
        match self.api {
            WireApi::Chat | WireApi::Responses | WireApi::Ollama => {
                (AUTHORIZATION, format!("Bearer {}", key.reveal()))
            }
            WireApi::Anthropic => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
            // A key in the URL would appear in logs.
            WireApi::Gemini => (HeaderName::from_static("x-goog-api-key"), key.reveal().to_owned()),
        }
    }
}

/// A header value that is marked sensitive, so logs do not print it.
fn sensitive_value(what: &str, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| format!("{what} contains a character that is not allowed in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Omits the URL, which may contain a secret.
impl fmt::Debug for ProviderEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).field("api", &self.api).finish_non_exhaustive()
    }
}
