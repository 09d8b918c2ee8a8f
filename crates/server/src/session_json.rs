//! Sessions as ADK's JSON. Long responses are serialized while they are read: neither all events of a session nor all sessions of a
//! user are in memory at once.

use crate::{
    error::ApiError,
    handlers::json_response,
    response_budget::{ResponseBudget, SMALL_PART},
};
use adk::{
    error::{ServiceError, StoreError, StoreFault},
    event::Event,
};
use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bridge::store::{
    archive::{EventPages, SessionSummary},
    session_list::SessionSummaries,
};
use futures::stream;
use serde_json::Value;

/// The approximate size of a chunk in bytes. A connection whose client does not read holds one or two.
const CHUNK_BYTES: usize = 64 * 1024;
/// The maximum number of events in a chunk.
const MAX_EVENTS: usize = 512;

type JsonResult<T> = Result<T, serde_json::Error>;

/// The beginning of a session's JSON, with its state, and what the rest needs.
///
/// The state is charged like an event, so it is not kept in the summary.
pub(crate) struct OpenedSession {
    begin: Bytes,
    head: SessionSummary,
}

impl OpenedSession {
    /// Serializes the beginning of a session. `load` is called again if its state is large.
    pub(crate) async fn load<F>(
        budget: &ResponseBudget,
        user: &str,
        mut load: impl FnMut() -> F,
    ) -> Result<Self, ApiError>
    where
        F: Future<Output = Result<SessionSummary, ApiError>>,
    {
        let open = || {
            let head = load();
            async move {
                let mut head = head.await?;
                let begin = open_session(&head).map_err(serialization_error)?;
                head.state.clear();
                Ok::<_, ApiError>((begin, head))
            }
        };
        let (begin, head) = budget.load(user, open).await?;
        Ok(Self { begin, head })
    }

    /// The position of the last event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.head.last_seq
    }
}

/// A session with its events. A short one is sent at once, a long one in chunks.
pub(crate) async fn session_response(
    head: OpenedSession,
    pages: EventPages,
    budget: &ResponseBudget,
) -> Result<Response, ApiError> {
    let session = SessionStream::new(head, pages, budget, None);
    respond(JsonStream::Session(Box::new(session))).await
}

/// Sessions without their events.
pub(crate) async fn list_response(
    heads: SessionSummaries,
    user: &str,
    budget: &ResponseBudget,
) -> Result<Response, ApiError> {
    let (user, budget) = (user.to_owned(), budget.clone());
    respond(JsonStream::List(SessionListStream { heads, user, budget, has_begun: false, is_over: false }))
        .await
}

/// One page of sessions without their events.
pub(crate) fn list_page(heads: &[SessionSummary]) -> Result<Vec<u8>, ServiceError> {
    let mut body = b"[".to_vec();
    for (index, head) in heads.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend(session_without_events(head).map_err(serialization_error)?);
    }
    body.push(b']');
    Ok(body)
}

/// A session with one page of its events, and the position after which the next page begins, if there is one.
pub(crate) async fn session_page(
    head: OpenedSession,
    pages: EventPages,
    limit: u64,
    budget: &ResponseBudget,
) -> Result<(Response, Option<u64>), ApiError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = end_of_page(&head.head, pages.clone(), limit).await?;
    let session = SessionStream::new(head, pages, budget, Some(limit));
    Ok((respond(JsonStream::Session(Box::new(session))).await?, next))
}

/// The last position of a page, if events follow it. It is sent before the page is serialized.
async fn end_of_page(
    head: &SessionSummary,
    mut pages: EventPages,
    limit: usize,
) -> Result<Option<u64>, ServiceError> {
    let (mut left, mut last) = (limit, None);
    while left > 0 {
        let events = pages.next(left.min(MAX_EVENTS), CHUNK_BYTES).await?;
        let Some((seq, _)) = events.last() else { return Ok(None) };
        left -= events.len();
        last = Some(*seq);
    }
    Ok(last.filter(|seq| *seq < head.last_seq))
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
        Ok::<_, ServiceError>(chunk.map(|chunk| (chunk, (None, stream))))
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

    async fn next(&mut self) -> Result<Option<Bytes>, ServiceError> {
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
    /// The beginning of the object, until it is sent.
    begin: Bytes,
    pages: EventPages,
    budget: ResponseBudget,
    /// The maximum number of further events.
    left: usize,
    has_events: bool,
    is_over: bool,
}

impl SessionStream {
    fn new(opened: OpenedSession, pages: EventPages, budget: &ResponseBudget, limit: Option<usize>) -> Self {
        let left = limit.unwrap_or(usize::MAX);
        let (OpenedSession { begin, head }, budget) = (opened, budget.clone());
        Self { head, begin, pages, budget, left, has_events: false, is_over: false }
    }

    async fn next(&mut self) -> Result<Bytes, ServiceError> {
        // A large state is a separate chunk. Otherwise it would be copied beside its charge.
        if self.begin.len() > SMALL_PART {
            return Ok(std::mem::take(&mut self.begin));
        }
        let limit = self.left.min(MAX_EVENTS);
        let this = &*self;
        let load = || async move {
            let mut pages = this.pages.clone();
            let events = if limit == 0 { Vec::new() } else { pages.next(limit, CHUNK_BYTES).await? };
            // Events appended after the head was read are not part of this response.
            let is_past_head = events.last().is_none_or(|(seq, _)| *seq >= this.head.last_seq);
            let is_over = is_past_head || events.len() == this.left || pages.has_ended();
            let chunk = this.serialize(&events, is_over).map_err(serialization_error)?;
            Ok::<_, ServiceError>((chunk, (pages, events.len(), is_over)))
        };
        let (chunk, (pages, count, is_over)) = self.budget.load(&self.head.key.user_id, load).await?;
        (self.pages, self.is_over) = (pages, is_over);
        self.left -= count;
        self.has_events |= count > 0;
        self.begin.clear();
        Ok(chunk)
    }

    fn serialize(&self, events: &[(u64, Event)], is_over: bool) -> JsonResult<Vec<u8>> {
        let mut chunk = self.begin.to_vec();
        append_events(&mut chunk, &self.head, events, !self.has_events)?;
        if is_over {
            chunk.extend(close_session(&self.head)?);
        }
        Ok(chunk)
    }
}

struct SessionListStream {
    heads: SessionSummaries,
    user: String,
    budget: ResponseBudget,
    has_begun: bool,
    is_over: bool,
}

impl SessionListStream {
    async fn next(&mut self) -> Result<Bytes, ServiceError> {
        let (has_begun, heads) = (self.has_begun, &self.heads);
        let load = || read_list(heads.clone(), has_begun);
        let (chunk, next) = self.budget.load(&self.user, load).await?;
        (self.heads, self.has_begun, self.is_over) = next;
        Ok(chunk)
    }
}

/// The position in a list after a chunk: the rest, whether an entry was written, and whether the list is over.
type ListState = (SessionSummaries, bool, bool);

/// The next chunk of a list.
async fn read_list(
    mut heads: SessionSummaries,
    mut has_begun: bool,
) -> Result<(Vec<u8>, ListState), ServiceError> {
    let (mut chunk, mut is_over) = (Vec::new(), false);
    while chunk.len() < CHUNK_BYTES && !is_over {
        let head = heads.next().await?;
        is_over = head.is_none();
        match (head, has_begun) {
            (Some(head), _) => {
                chunk.push(if has_begun { b',' } else { b'[' });
                chunk.extend(session_without_events(&head).map_err(serialization_error)?);
                has_begun = true;
            }
            (None, true) => chunk.push(b']'),
            (None, false) => chunk.extend(b"[]"),
        }
    }
    Ok((chunk, (heads, has_begun, is_over)))
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
