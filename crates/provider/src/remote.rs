//! A provider behind a URL: a wire format on top of the HTTP transport.
//!
//! The HTTP client is built on the first call, so a program that calls no model loads no certificates.

mod base_url;
mod discover;
mod endpoint;
mod model_list;

use crate::{
    EncodedBody, Error, MessagePart, ModelRequest, ModelStream, Provider, StreamEvent, extra_body,
    http::{self, SecretString, StreamingCall},
    unsupported,
};
use base_url::BaseUrl;
use bounded_cache::{BoundedCache, Limits};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use lock::LockExt;
use reqwest::{Client, Method, header::HeaderMap};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

pub use discover::{DiscoveredServer, LOCAL_SERVERS, LocalServer, discover};
pub use endpoint::ProviderEndpoint;
pub use model_list::ModelInfo;

/// A provider that is reached over HTTP.
pub struct RemoteProvider {
    endpoint: ProviderEndpoint,
    secrets: Arc<[SecretString]>,
    client: OnceLock<EndpointClient>,
    /// Warnings that were emitted already. They name files of users, so their number is bounded.
    emitted_warnings: Mutex<BoundedCache<String, ()>>,
}

/// The client that the first call builds from the endpoint.
struct EndpointClient {
    base_url: BaseUrl,
    client: Client,
    headers: HeaderMap,
}

/// The number of warnings that are remembered, so that each is emitted once.
const MAX_WARNINGS: usize = 256;
/// The timeout for the list of models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(10);

impl RemoteProvider {
    pub fn new(endpoint: ProviderEndpoint) -> Self {
        let secrets = endpoint.secrets().into();
        let emitted_warnings = Mutex::new(BoundedCache::new(Limits::entries(MAX_WARNINGS)));
        Self { endpoint, secrets, client: OnceLock::new(), emitted_warnings }
    }

    pub fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    /// Lists the server's models. The call also shows whether the server is reachable.
    pub async fn models(&self) -> Result<Vec<ModelInfo>, Error> {
        self.models_with_timeout(MODEL_LIST_TIMEOUT).await
    }

    async fn models_with_timeout(&self, timeout: Duration) -> Result<Vec<ModelInfo>, Error> {
        let EndpointClient { base_url, client, headers } = self.client()?;
        let mut request = reqwest::Request::new(Method::GET, base_url.models_url());
        *request.headers_mut() = headers.clone();
        let body = http::fetch_json(&self.endpoint.name, client, request, timeout).await;
        let body = body.map_err(|error| error.mask_secrets(&self.secrets))?;
        model_list::parse_models(self.endpoint.api, &body).ok_or_else(|| Error::Protocol {
            provider: self.endpoint.name.clone(),
            message: "expected a list of models".to_owned(),
        })
    }

    fn body(&self, request: &ModelRequest) -> Bytes {
        let ProviderEndpoint { api, base_url, body_variables, .. } = &self.endpoint;
        let extra = extra_body::fill(&request.extra_body, body_variables);
        api.encode_to_bytes_with(base_url, request, &extra).into()
    }

    fn prepare_call(&self, request: &ModelRequest) -> Result<(Bytes, StreamingCall), Error> {
        let ProviderEndpoint { name, api, idle_timeout, .. } = &self.endpoint;
        if request.model.is_empty() {
            let message = "the request names no model".to_owned();
            return Err(Error::BadRequest { provider: name.clone(), message });
        }
        let EndpointClient { base_url, client, headers } = self.client()?;
        let mut post = reqwest::Request::new(Method::POST, base_url.call_url(&request.model));
        *post.headers_mut() = headers.clone();
        let body = self.body(request);
        *post.body_mut() = Some(body.clone().into());
        let call = StreamingCall {
            provider: name.clone(),
            client: client.clone(),
            request: post,
            framing: api.framing(),
            decoder: api.decoder(name, request),
            idle: *idle_timeout,
            secrets: Arc::clone(&self.secrets),
        };
        Ok((body, call))
    }

    fn client(&self) -> Result<&EndpointClient, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.endpoint.build_client().map_err(|message| {
            Error::Setup { provider: self.endpoint.name.clone(), message }.mask_secrets(&self.secrets)
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Warns about unsupported options and files. Each warning is emitted once per provider, not once per turn.
    fn warnings(&self, request: &ModelRequest) -> Vec<StreamEvent> {
        let ProviderEndpoint { name, api, .. } = &self.endpoint;
        let options = api.unsupported_options(request).into_iter();
        let options = options.map(|option| {
            format!("{name} does not support `{option}` for this model; the option is ignored")
        });
        // The files of an encoded prefix were sent before.
        let is_new = request.prefix.as_ref().is_none_or(|prefix| !prefix.is_encoded());
        let earlier = request.prefix.iter().filter(|_| is_new).flat_map(|prefix| prefix.messages());
        let files =
            earlier.chain(&request.messages).flat_map(|message| &message.parts).filter_map(
                |part| match part {
                    MessagePart::Media(media) if !api.accepts_media(media) => Some(media),
                    MessagePart::Media(_)
                    | MessagePart::Text { .. }
                    | MessagePart::Thought { .. }
                    | MessagePart::Call(_)
                    | MessagePart::Result(_) => None,
                },
            );
        let files = files.map(|file| {
            let file_name = file.name.as_deref().unwrap_or("a file");
            let kind = &file.mime_type;
            format!("{name} does not accept {file_name} ({kind}); the model sees only the name of the file")
        });
        let mut emitted = self.emitted_warnings.locked();
        options
            .chain(files)
            .filter(|warning| {
                let is_new = emitted.get(warning.as_str()).is_none();
                emitted.insert(warning.clone(), (), 1);
                is_new
            })
            .map(StreamEvent::Warning)
            .collect()
    }
}

impl Provider for RemoteProvider {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let warnings = self.warnings(&request);
        match self.prepare_call(&request) {
            Ok((body, call)) => {
                let before = [StreamEvent::Sent(body)].into_iter().chain(warnings);
                let before = stream::iter(before.collect::<Vec<_>>());
                let (api, base_url) = (self.endpoint.api, self.endpoint.base_url.clone());
                let events = call.stream().map(move |event| match event {
                    StreamEvent::Error(error) => {
                        StreamEvent::Error(unsupported::refine(api, &base_url, &request, error))
                    }
                    other => other,
                });
                before.chain(events).boxed()
            }
            Err(error) => stream::iter([StreamEvent::Error(error)]).boxed(),
        }
    }

    fn reads_prefix(&self) -> bool {
        true
    }

    fn encode(&self, request: &ModelRequest) -> Option<EncodedBody> {
        let sent = self.body(request);
        if !extra_body::has_variables(&request.extra_body) {
            return Some(sent.into());
        }
        let shown = self.endpoint.api.encode_to_bytes(&self.endpoint.base_url, request).into();
        Some(EncodedBody { sent, shown })
    }
}

impl fmt::Debug for RemoteProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
