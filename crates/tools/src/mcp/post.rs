//! Messages to a server at an address. What it answers is made thin while it comes, so that no answer fills the memory.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, StreamableHttpClient, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use sse_stream::SseStream;

use super::thin::{Shelf, Thinner};
use crate::OutputStore;

/// Of one message, without its long strings.
const LONGEST: usize = 16 << 20;
/// Of a refusal.
const REFUSAL: usize = 64 << 10;
const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[derive(Clone)]
pub(super) struct Post {
    pub(super) client: Client,
    pub(super) outputs: OutputStore,
    pub(super) shelf: Shelf,
}

type Failure = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for Post {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut request = self.client.post(&*uri).header(ACCEPT, format!("{JSON}, {EVENTS}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, &**session);
        }
        let body = serde_json::to_vec(&message)?;
        let sent = request.header(CONTENT_TYPE, JSON).body(body).send().await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if session.is_some() => Err(StreamableHttpError::SessionExpired),
            status if status.is_success() => self.answer(response, &message).await,
            _ => refused(response, &message, session.is_some()).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Failure> {
        self.client.get_stream(uri, session, last_event, token, headers).await
    }
}

impl Post {
    async fn answer(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str());
        let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
        if is(EVENTS) {
            let events = SseStream::from_bytes_stream(self.thin(response)).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        // Only a request needs an answer, whatever there is.
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        if !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is(JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let whole = self.thin(response).try_fold(Vec::new(), |mut whole, piece| async move {
            whole.extend(piece);
            if whole.len() > LONGEST { Err(too_long()) } else { Ok(whole) }
        });
        let answer = serde_json::from_slice(&whole.await?)?;
        Ok(StreamableHttpPostResponse::Json(answer, session))
    }

    /// The body, without its long strings.
    fn thin(&self, response: Response) -> impl Stream<Item = io::Result<VecDeque<u8>>> + Send + 'static {
        let thinner = Thinner::new(self.outputs.clone(), self.shelf.clone());
        stream::try_unfold(
            (response, thinner, Event::default()),
            |(mut response, mut thinner, mut event)| async {
                let Some(piece) = response.chunk().await.map_err(io::Error::other)? else { return Ok(None) };
                let mut thin = VecDeque::new();
                thinner.take(&piece, &mut thin);
                for &byte in &thin {
                    event.take(byte);
                }
                if event.length > LONGEST {
                    return Err(too_long());
                }
                Ok(Some((thin, (response, thinner, event))))
            },
        )
    }
}

fn too_long() -> io::Error {
    io::Error::other("its answer is too long")
}

/// How long the event is that we are in. An empty line ends it.
#[derive(Default)]
struct Event {
    length: usize,
    begins_line: bool,
}

impl Event {
    fn take(&mut self, byte: u8) {
        self.length = if byte == b'\n' && self.begins_line { 0 } else { self.length + 1 };
        self.begins_line = byte == b'\n' || byte == b'\r' && self.begins_line;
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

async fn refused(
    mut response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = header(&response, WWW_AUTHENTICATE.as_str()).unwrap_or_default();
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
    }
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await
        && body.len() < REFUSAL
    {
        body.extend_from_slice(&piece);
    }
    let told = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(told)) => Some(told),
        Ok(_) | Err(_) => None,
    };
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !has_session
    {
        // Older servers do not know it, and say so in many ways.
        let error =
            told.map_or_else(|| ErrorData::invalid_request(status.to_string(), None), |told| told.error);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match told {
        Some(told) if told.id.is_some() => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(told), None))
        }
        // Many servers say so that they do not know a session, where the protocol wants 404.
        Some(told) if has_session && is_about_the_session(status, &told.error) => {
            Err(StreamableHttpError::SessionExpired)
        }
        Some(told) => Err(StreamableHttpError::UnexpectedServerResponse(
            format!("HTTP {status}: {}", told.error.message).into(),
        )),
        None => Err(HttpStatusError::new(status.as_u16(), None).into()),
    }
}

fn is_about_the_session(status: StatusCode, error: &ErrorData) -> bool {
    status == StatusCode::BAD_REQUEST && error.message.to_lowercase().contains("session")
}
