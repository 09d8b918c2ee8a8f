//! Requests to a [`TestApp`](super::test_app::TestApp), and their responses.

use super::test_app::HOST;
use axum::{
    Router,
    body::{Body, BodyDataStream, Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use futures::StreamExt;
use serde_json::Value;
use server::access::PeerAddr;
use std::net::IpAddr;
use testkit::sse::{SseBuffer, SseEvent};
use tower::ServiceExt;

/// A request that is being built. It has the Host header of the server.
pub(crate) struct TestRequest {
    router: Router,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Body,
    peer: Option<PeerAddr>,
}

impl TestRequest {
    pub(crate) fn new(router: Router, method: Method, path: &str) -> Self {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(HOST))]);
        Self { router, method, path: path.to_owned(), headers, body: Body::empty(), peer: None }
    }

    /// Sets a header, and replaces an earlier one of the same name.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        self
    }

    /// Adds a header beside earlier ones of the same name.
    pub(crate) fn repeated_header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        self
    }

    /// Sets the address of the connection.
    pub(crate) fn peer(self, address: &str) -> Self {
        Self { peer: Some(PeerAddr((address.parse::<IpAddr>().unwrap(), 1).into())), ..self }
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sets the body with its content type and content length.
    pub(crate) fn body(self, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let length = body.len().to_string();
        let request = self.header("content-type", content_type).header("content-length", &length);
        Self { body: body.into(), ..request }
    }

    /// Sets a JSON body without a content length, as with chunked transfer encoding.
    pub(crate) fn chunked(self, body: impl Into<Bytes>) -> Self {
        let request = self.header("content-type", "application/json");
        let chunk: Result<Bytes, std::io::Error> = Ok(body.into());
        Self { body: Body::from_stream(futures::stream::iter([chunk])), ..request }
    }

    async fn respond(self) -> Response {
        let mut request = Request::builder().method(self.method).uri(self.path).body(self.body).unwrap();
        *request.headers_mut() = self.headers;
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        self.router.oneshot(request).await.unwrap()
    }

    /// Sends the request and reads the whole response.
    pub(crate) async fn send(self) -> TestResponse {
        let (parts, body) = self.respond().await.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        TestResponse { status: parts.status, headers: parts.headers, body }
    }

    /// Sends the request. The body of the response is not read until it is dropped.
    pub(crate) async fn unread(self) -> Response {
        self.respond().await
    }

    /// Sends the request and reads its events one by one.
    pub(crate) async fn stream(self) -> TestStream {
        let (parts, body) = self.respond().await.into_parts();
        if parts.status != StatusCode::OK {
            let body = to_bytes(body, usize::MAX).await.unwrap();
            panic!("{}: {}", parts.status, String::from_utf8_lossy(&body));
        }
        assert_eq!(parts.headers[header::CONTENT_TYPE], "text/event-stream; charset=utf-8");
        TestStream { headers: parts.headers, body: body.into_data_stream(), buffer: SseBuffer::default() }
    }
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl TestResponse {
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The message of an error.
    #[track_caller]
    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_else(|| panic!("no message: {}", self.text())).to_owned()
    }

    /// The types and locations of validation errors, as `missing body.userId`.
    #[track_caller]
    pub(crate) fn validation_errors(&self) -> Vec<String> {
        let json = self.json();
        let errors = json["detail"].as_array().unwrap_or_else(|| panic!("no errors: {}", self.text()));
        let segment = |segment: &Value| segment.as_str().map_or_else(|| segment.to_string(), str::to_owned);
        let loc = |error: &Value| error["loc"].as_array().unwrap().iter().map(segment).collect::<Vec<_>>();
        errors
            .iter()
            .map(|error| format!("{} {}", error["type"].as_str().unwrap(), loc(error).join(".")))
            .collect()
    }
}

/// A stream of server-sent events.
pub(crate) struct TestStream {
    headers: HeaderMap,
    body: BodyDataStream,
    buffer: SseBuffer,
}

impl TestStream {
    pub(crate) fn run_id(&self) -> &str {
        self.headers["x-run-id"].to_str().unwrap()
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        self.next_block().await.map(|block| SseEvent::parse(&block).unwrap().unwrap())
    }

    /// The text of the next block, which may be a comment; `None` at the end of the stream.
    pub(crate) async fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some(block) = self.buffer.next_block() {
                return Some(block);
            }
            let chunk = self.body.next().await?.unwrap();
            self.buffer.push(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The remaining events.
    pub(crate) async fn all(mut self) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}
