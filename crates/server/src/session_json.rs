//! Sessions as ADK's JSON. What is long is written while it is read: a million events are never in memory, nor are all sessions
//! of a user.

use crate::{error::ApiError, handlers::json};
use adk::{
    error::{ServiceError, StoreError, StoreFault},
    event::Event,
};
use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bridge::archive::{Head, Heads, Pages};
use futures::stream;
use serde_json::Value;

/// About how many bytes are written at a time.
const PIECE: usize = 128 * 1024;
/// Events that are read at a time: at first, and at most. Between them it follows from how large they are.
const FIRST: usize = 64;
const MOST: usize = 512;

type JsonResult<T> = Result<T, serde_json::Error>;

/// All of it: at once if it is short, and else piece by piece.
pub(crate) async fn answer(head: Head, pages: Pages) -> Result<Response, ApiError> {
    let session = SessionStream { head, pages, size: FIRST, begun: false, over: false };
    send(JsonStream::Session(Box::new(session))).await
}

/// Sessions without their events.
pub(crate) async fn list(heads: Heads) -> Result<Response, ApiError> {
    send(JsonStream::List(SessionListStream { heads, begun: false, over: false })).await
}

/// A page of it, and where the next one begins if there is one.
pub(crate) async fn page(
    head: &Head,
    mut pages: Pages,
    limit: u64,
) -> Result<(Vec<u8>, Option<u64>), ApiError> {
    let size = usize::try_from(limit).unwrap_or(FIRST);
    let events = if size == 0 { Vec::new() } else { pages.next(size).await? };
    let mut body = begun(head)?;
    add(&mut body, head, &events, true)?;
    body.extend(ended(head)?);
    let last = events.last().map(|(place, _)| *place).filter(|place| *place < head.last_seq);
    Ok((body, last.filter(|_| events.len() == size)))
}

async fn send(mut text: JsonStream) -> Result<Response, ApiError> {
    let first = text.next().await?.unwrap_or_default();
    if text.is_over() {
        return Ok(json(first));
    }
    let pieces = stream::try_unfold((Some(first), text), |(ready, mut text)| async move {
        let piece = match ready {
            Some(ready) => Some(ready),
            None => text.next().await?,
        };
        Ok::<_, ServiceError>(piece.map(|piece| (Bytes::from(piece), (None, text))))
    });
    Ok(json(Body::from_stream(pieces)))
}

/// What is being written.
enum JsonStream {
    Session(Box<SessionStream>),
    List(SessionListStream),
}

impl JsonStream {
    fn is_over(&self) -> bool {
        match self {
            Self::Session(session) => session.over,
            Self::List(list) => list.over,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ServiceError> {
        if self.is_over() {
            return Ok(None);
        }
        let piece = match self {
            Self::Session(session) => session.next().await,
            Self::List(list) => list.next().await,
        };
        piece.map(Some)
    }
}

struct SessionStream {
    head: Head,
    pages: Pages,
    /// How many events are read next.
    size: usize,
    begun: bool,
    over: bool,
}

impl SessionStream {
    async fn next(&mut self) -> Result<Vec<u8>, ServiceError> {
        let events = self.pages.next(self.size).await?;
        // What was appended since the head was read belongs to a later answer.
        let is_past = events.last().is_none_or(|(place, _)| *place >= self.head.last_seq);
        self.over = is_past || events.len() < self.size;
        let piece = self.written(&events).map_err(not_written)?;
        self.size = (events.len() * PIECE / piece.len().max(1)).clamp(1, MOST);
        Ok(piece)
    }

    fn written(&mut self, events: &[(u64, Event)]) -> JsonResult<Vec<u8>> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let mut piece = if is_first { begun(&self.head)? } else { Vec::with_capacity(PIECE) };
        add(&mut piece, &self.head, events, is_first)?;
        if self.over {
            piece.extend(ended(&self.head)?);
        }
        Ok(piece)
    }
}

struct SessionListStream {
    heads: Heads,
    begun: bool,
    over: bool,
}

impl SessionListStream {
    async fn next(&mut self) -> Result<Vec<u8>, ServiceError> {
        let mut piece = Vec::new();
        while piece.len() < PIECE && !self.over {
            let head = self.heads.next().await?;
            self.over = head.is_none();
            match (head, self.begun) {
                (Some(head), begun) => {
                    piece.push(if begun { b',' } else { b'[' });
                    piece.extend(without_events(&head).map_err(not_written)?);
                    self.begun = true;
                }
                (None, true) => piece.push(b']'),
                (None, false) => piece.extend(b"[]"),
            }
        }
        Ok(piece)
    }
}

fn not_written(error: serde_json::Error) -> ServiceError {
    StoreError::new(StoreFault::Other, error).into()
}

fn without_events(head: &Head) -> JsonResult<Vec<u8>> {
    let mut body = begun(head)?;
    body.extend(ended(head)?);
    Ok(body)
}

fn begun(head: &Head) -> JsonResult<Vec<u8>> {
    let mut body = Vec::with_capacity(1024);
    let fields =
        [("id", &head.key.session_id), ("appName", &head.key.app_name), ("userId", &head.key.user_id)];
    for (number, (name, value)) in fields.into_iter().enumerate() {
        body.extend(if number == 0 { b"{\"" } else { b",\"" });
        body.extend(name.as_bytes());
        body.extend(b"\":");
        serde_json::to_writer(&mut body, value)?;
    }
    body.extend(b",\"state\":");
    serde_json::to_writer(&mut body, &head.state)?;
    body.extend(b",\"events\":[");
    Ok(body)
}

fn add(body: &mut Vec<u8>, head: &Head, events: &[(u64, Event)], mut first: bool) -> JsonResult<()> {
    for (_, event) in events.iter().filter(|(place, _)| *place <= head.last_seq) {
        if !std::mem::take(&mut first) {
            body.push(b',');
        }
        serde_json::to_writer(&mut *body, event)?;
    }
    Ok(())
}

fn ended(head: &Head) -> JsonResult<Vec<u8>> {
    let mut body = b"],\"lastUpdateTime\":".to_vec();
    serde_json::to_writer(&mut body, &Value::from(head.last_update_time))?;
    body.push(b'}');
    Ok(body)
}
