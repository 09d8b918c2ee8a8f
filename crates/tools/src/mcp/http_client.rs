//! The HTTP client of the streamable HTTP transport. Long strings are spilled while a response is received, which bounds
//! memory use.

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

use super::{
    failure::{HttpTransportError, ResponseFault, server_message},
    spill::{SpilledStrings, StringSpiller},
};
use crate::OutputStore;

/// Size limit of a message without its spilled strings.
const MAX_MESSAGE: usize = 16 << 20;
/// Size limit of an error response.
const MAX_ERROR: usize = 64 << 10;
const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A client that spills long strings of responses.
#[derive(Clone)]
pub(super) struct SpillingHttpClient {
    pub(super) client: Client,
    pub(super) outputs: OutputStore,
    pub(super) spilled: SpilledStrings,
}

impl StreamableHttpClient for SpillingHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpTransportError> {
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
            status if status.is_success() => self.read_response(response, &message).await,
            _ => read_error(response, &message, session.is_some()).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpTransportError> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, HttpTransportError> {
        self.client.get_stream(uri, session, last_event, token, headers).await
    }
}

impl SpillingHttpClient {
    async fn read_response(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
    ) -> Result<StreamableHttpPostResponse, HttpTransportError> {
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str());
        let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
        if is(EVENTS) {
            let events = SseStream::from_bytes_stream(self.spill_body(response)).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        // The body of a response to a notification is ignored.
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        if !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is(JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let whole = self.spill_body(response).try_fold(Vec::new(), |mut whole, chunk| async move {
            whole.extend(chunk);
            if whole.len() > MAX_MESSAGE { Err(ResponseFault::TooLong.into()) } else { Ok(whole) }
        });
        let answer = serde_json::from_slice(&whole.await?)?;
        Ok(StreamableHttpPostResponse::Json(answer, session))
    }

    /// The body with placeholders for its long strings.
    fn spill_body(
        &self,
        response: Response,
    ) -> impl Stream<Item = io::Result<VecDeque<u8>>> + Send + 'static {
        let spiller = StringSpiller::new(self.outputs.clone(), self.spilled.clone());
        stream::try_unfold(
            (response, spiller, SseEventLength::default()),
            |(mut response, mut spiller, mut event)| async {
                let Some(chunk) = response.chunk().await.map_err(io::Error::other)? else { return Ok(None) };
                let mut out = VecDeque::new();
                spiller.push(&chunk, &mut out);
                for &byte in &out {
                    event.push(byte);
                }
                if event.length > MAX_MESSAGE {
                    return Err(ResponseFault::TooLong.into());
                }
                Ok(Some((out, (response, spiller, event))))
            },
        )
    }
}

/// Measures the length of the current SSE event. An empty line ends it.
#[derive(Default)]
struct SseEventLength {
    length: usize,
    begins_line: bool,
}

impl SseEventLength {
    fn push(&mut self, byte: u8) {
        self.length = if byte == b'\n' && self.begins_line { 0 } else { self.length + 1 };
        self.begins_line = byte == b'\n' || byte == b'\r' && self.begins_line;
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Converts an error response, in the forms that servers use.
async fn read_error(
    mut response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, HttpTransportError> {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = header(&response, WWW_AUTHENTICATE.as_str()).unwrap_or_default();
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
    }
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() < MAX_ERROR
    {
        body.extend_from_slice(&chunk);
    }
    let reported = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(reported)) => Some(reported),
        Ok(_) | Err(_) => None,
    };
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !has_session
    {
        // Older servers do not support this request and reject it with various errors.
        let error = reported
            .map_or_else(|| ErrorData::invalid_request(status.to_string(), None), |reported| reported.error);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match reported {
        Some(reported) if reported.id.is_some() => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(reported), None))
        }
        // Many servers report an unknown session like this, although the protocol requires 404.
        Some(reported) if has_session && is_about_the_session(status, &reported.error) => {
            Err(StreamableHttpError::SessionExpired)
        }
        Some(reported) => {
            let fault = ResponseFault::Refused(status.as_u16(), server_message(&reported.error));
            Err(StreamableHttpError::Io(fault.into()))
        }
        None => Err(HttpStatusError::new(status.as_u16(), None).into()),
    }
}

fn is_about_the_session(status: StatusCode, error: &ErrorData) -> bool {
    status == StatusCode::BAD_REQUEST && error.message.to_lowercase().contains("session")
}
