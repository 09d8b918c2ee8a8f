//! Sessions as ADK's JSON. Long responses are serialized while they are read: neither all events of a session nor all sessions of a
//! user are in memory at once.

use crate::{error::ApiError, handlers::json_response};
use adk::{
    error::{ServiceError, StoreError, StoreFault},
    event::Event,
};
use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bridge::store::archive::{EventPages, SessionSummaries, SessionSummary};
use futures::stream;
use serde_json::Value;

/// The approximate size of a chunk in bytes.
const CHUNK_BYTES: usize = 128 * 1024;
/// Events of the first page. The size of later pages follows from the size of the events.
const FIRST_PAGE: usize = 64;
const MAX_PAGE: usize = 512;

type JsonResult<T> = Result<T, serde_json::Error>;

/// A session with its events. A short one is sent at once, a long one in chunks.
pub(crate) async fn session_response(head: SessionSummary, pages: EventPages) -> Result<Response, ApiError> {
    let session = SessionStream { head, pages, page_size: FIRST_PAGE, has_begun: false, is_over: false };
    respond(JsonStream::Session(Box::new(session))).await
}

/// Sessions without their events.
pub(crate) async fn list_response(heads: SessionSummaries) -> Result<Response, ApiError> {
    respond(JsonStream::List(SessionListStream { heads, has_begun: false, is_over: false })).await
}

/// A session with one page of its events, and the position after which the next page begins, if there is one.
pub(crate) async fn session_page(
    head: &SessionSummary,
    mut pages: EventPages,
    limit: u64,
) -> Result<(Vec<u8>, Option<u64>), ApiError> {
    let size = usize::try_from(limit).unwrap_or(FIRST_PAGE);
    let events = if size == 0 { Vec::new() } else { pages.next(size).await? };
    let mut body = open_session(head)?;
    append_events(&mut body, head, &events, true)?;
    body.extend(close_session(head)?);
    let last = events.last().map(|(seq, _)| *seq).filter(|seq| *seq < head.last_seq);
    Ok((body, last.filter(|_| events.len() == size)))
}

async fn respond(mut stream: JsonStream) -> Result<Response, ApiError> {
    // The first chunk is read before the head is sent, so that an error can still change the status.
    let first = stream.next().await?.unwrap_or_default();
    if stream.is_over() {
        return Ok(json_response(first));
    }
    let chunks = stream::try_unfold((Some(first), stream), |(first, mut stream)| async move {
        let chunk = match first {
            Some(first) => Some(first),
            None => stream.next().await?,
        };
        Ok::<_, ServiceError>(chunk.map(|chunk| (Bytes::from(chunk), (None, stream))))
    });
    Ok(json_response(Body::from_stream(chunks)))
}

/// A JSON document that is serialized in chunks.
enum JsonStream {
    Session(Box<SessionStream>),
    List(SessionListStream),
}

impl JsonStream {
    fn is_over(&self) -> bool {
        match self {
            Self::Session(session) => session.is_over,
            Self::List(list) => list.is_over,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ServiceError> {
        if self.is_over() {
            return Ok(None);
        }
        let chunk = match self {
            Self::Session(session) => session.next().await,
            Self::List(list) => list.next().await,
        };
        chunk.map(Some)
    }
}

struct SessionStream {
    head: SessionSummary,
    pages: EventPages,
    /// The number of events to read next.
    page_size: usize,
    has_begun: bool,
    is_over: bool,
}

impl SessionStream {
    async fn next(&mut self) -> Result<Vec<u8>, ServiceError> {
        let events = self.pages.next(self.page_size).await?;
        // Events appended after the head was read are not part of this response.
        let is_past_head = events.last().is_none_or(|(seq, _)| *seq >= self.head.last_seq);
        self.is_over = is_past_head || events.len() < self.page_size;
        let chunk = self.serialize(&events).map_err(serialization_error)?;
        self.page_size = (events.len() * CHUNK_BYTES / chunk.len().max(1)).clamp(1, MAX_PAGE);
        Ok(chunk)
    }

    fn serialize(&mut self, events: &[(u64, Event)]) -> JsonResult<Vec<u8>> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut chunk = if is_first { open_session(&self.head)? } else { Vec::with_capacity(CHUNK_BYTES) };
        append_events(&mut chunk, &self.head, events, is_first)?;
        if self.is_over {
            chunk.extend(close_session(&self.head)?);
        }
        Ok(chunk)
    }
}

struct SessionListStream {
    heads: SessionSummaries,
    has_begun: bool,
    is_over: bool,
}

impl SessionListStream {
    async fn next(&mut self) -> Result<Vec<u8>, ServiceError> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES && !self.is_over {
            let head = self.heads.next().await?;
            self.is_over = head.is_none();
            match (head, self.has_begun) {
                (Some(head), has_begun) => {
                    chunk.push(if has_begun { b',' } else { b'[' });
                    chunk.extend(session_without_events(&head).map_err(serialization_error)?);
                    self.has_begun = true;
                }
                (None, true) => chunk.push(b']'),
                (None, false) => chunk.extend(b"[]"),
            }
        }
        Ok(chunk)
    }
}

fn serialization_error(error: serde_json::Error) -> ServiceError {
    StoreError::new(StoreFault::Other, error).into()
}

fn session_without_events(head: &SessionSummary) -> JsonResult<Vec<u8>> {
    let mut body = open_session(head)?;
    body.extend(close_session(head)?);
    Ok(body)
}

/// The session object up to the first event.
fn open_session(head: &SessionSummary) -> JsonResult<Vec<u8>> {
    let mut body = Vec::with_capacity(1024);
    let fields =
        [("id", &head.key.session_id), ("appName", &head.key.app_name), ("userId", &head.key.user_id)];
    for (index, (name, value)) in fields.into_iter().enumerate() {
        body.extend(if index == 0 { b"{\"" } else { b",\"" });
        body.extend(name.as_bytes());
        body.extend(b"\":");
        serde_json::to_writer(&mut body, value)?;
    }
    body.extend(b",\"state\":");
    serde_json::to_writer(&mut body, &head.state)?;
    body.extend(b",\"events\":[");
    Ok(body)
}

fn append_events(
    body: &mut Vec<u8>,
    head: &SessionSummary,
    events: &[(u64, Event)],
    mut is_first: bool,
) -> JsonResult<()> {
    for (_, event) in events.iter().filter(|(seq, _)| *seq <= head.last_seq) {
        if !std::mem::take(&mut is_first) {
            body.push(b',');
        }
        serde_json::to_writer(&mut *body, event)?;
    }
    Ok(())
}

/// The session object after the last event.
fn close_session(head: &SessionSummary) -> JsonResult<Vec<u8>> {
    let mut body = b"],\"lastUpdateTime\":".to_vec();
    serde_json::to_writer(&mut body, &Value::from(head.last_update_time))?;
    body.push(b'}');
    Ok(body)
}
