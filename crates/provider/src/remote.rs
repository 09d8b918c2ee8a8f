//! A provider behind an address: its wire format on the one HTTP layer.
//!
//! Nothing is built before the first call: a program that never asks a model reads no certificates.

mod address;
mod discover;
mod endpoint;
mod list;

use crate::{
    Error, MessagePart, ModelRequest, ModelStream, Provider, StreamEvent,
    http::{self, SecretString, StreamingCall},
};
use address::BaseUrl;
use futures::{StreamExt as _, stream};
use reqwest::{Client, Method, header::HeaderMap};
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

pub use discover::{DiscoveredServer, LOCAL_SERVERS, LocalServer, discover};
pub use endpoint::ProviderEndpoint;
pub use list::ModelInfo;

/// A server that is asked over HTTP.
pub struct RemoteProvider {
    endpoint: ProviderEndpoint,
    secrets: Arc<[SecretString]>,
    link: OnceLock<EndpointClient>,
    /// What the user was told.
    warned: Mutex<HashSet<String>>,
}

/// What the first call makes of the endpoint.
struct EndpointClient {
    address: BaseUrl,
    client: Client,
    headers: HeaderMap,
}

/// How long a list of models may take.
const LISTING: Duration = Duration::from_secs(10);

impl RemoteProvider {
    pub fn new(endpoint: ProviderEndpoint) -> Self {
        let secrets = endpoint.secrets().into();
        Self { endpoint, secrets, link: OnceLock::new(), warned: Mutex::default() }
    }

    pub fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    /// The models that the server offers; that it answers at all is worth knowing too.
    pub async fn models(&self) -> Result<Vec<ModelInfo>, Error> {
        self.models_within(LISTING).await
    }

    async fn models_within(&self, within: Duration) -> Result<Vec<ModelInfo>, Error> {
        let EndpointClient { address, client, headers } = self.link()?;
        let mut request = reqwest::Request::new(Method::GET, address.list());
        *request.headers_mut() = headers.clone();
        let body = http::fetch_json(&self.endpoint.name, client, request, within).await;
        let body = body.map_err(|error| error.mask_secrets(&self.secrets))?;
        list::models(self.endpoint.api, &body).ok_or_else(|| Error::Protocol {
            provider: self.endpoint.name.clone(),
            message: "a list of models was expected".to_owned(),
        })
    }

    fn call(&self, request: &ModelRequest) -> Result<StreamingCall, Error> {
        let ProviderEndpoint { name, api, base_url, idle_timeout, .. } = &self.endpoint;
        if request.model.is_empty() {
            let message = "no model is named".to_owned();
            return Err(Error::BadRequest { provider: name.clone(), message });
        }
        let EndpointClient { address, client, headers } = self.link()?;
        let mut post = reqwest::Request::new(Method::POST, address.ask(&request.model));
        *post.headers_mut() = headers.clone();
        *post.body_mut() = Some(api.encode(base_url, request).to_string().into());
        Ok(StreamingCall {
            provider: name.clone(),
            client: client.clone(),
            request: post,
            framing: api.framing(),
            decoder: api.decoder(name, request),
            idle: *idle_timeout,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn link(&self) -> Result<&EndpointClient, Error> {
        if let Some(link) = self.link.get() {
            return Ok(link);
        }
        let link = self.endpoint.link().map_err(|message| {
            Error::Setup { provider: self.endpoint.name.clone(), message }.mask_secrets(&self.secrets)
        })?;
        Ok(self.link.get_or_init(|| link))
    }

    /// A setting that has no place, or a file that is not taken, is named once, not with every turn.
    fn warnings(&self, request: &ModelRequest) -> Vec<StreamEvent> {
        let ProviderEndpoint { name, api, .. } = &self.endpoint;
        let settings = api.unsupported_options(request).into_iter();
        let settings =
            settings.map(|setting| format!("{name} does not take `{setting}` here; it is left out"));
        let files =
            request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
                MessagePart::Media(media) if !api.accepts_media(media) => Some(media),
                MessagePart::Media(_)
                | MessagePart::Text { .. }
                | MessagePart::Thought { .. }
                | MessagePart::Call(_)
                | MessagePart::Result(_) => None,
            });
        let files = files.map(|file| {
            let called = file.name.as_deref().unwrap_or("a file");
            let kind = &file.mime_type;
            format!("{name} does not take {called} ({kind}); the model is told its name and not shown what is in it")
        });
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        settings
            .chain(files)
            .filter(|warning| warned.insert(warning.clone()))
            .map(StreamEvent::Warning)
            .collect()
    }
}

impl Provider for RemoteProvider {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        match self.call(&request) {
            Ok(call) => stream::iter(self.warnings(&request)).chain(call.stream()).boxed(),
            Err(error) => stream::iter([StreamEvent::Error(error)]).boxed(),
        }
    }
}

impl fmt::Debug for RemoteProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
