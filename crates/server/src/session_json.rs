//! A session as ADK's JSON. A long one is written while it is read: a million events are never in memory.

use crate::{error::Failure, handlers::json};
use adk::{error::ServiceError, event::Event};
use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bridge::archive::{Head, Pages};
use futures::stream;
use serde_json::Value;

/// Events that are read at a time.
const PAGE: usize = 256;

type Written<T> = Result<T, serde_json::Error>;

/// All of it: at once if it is short, and else piece by piece.
pub(crate) async fn answer(head: Head, mut pages: Pages) -> Result<Response, Failure> {
    let first = pages.next(PAGE).await?;
    let is_all = first.len() < PAGE;
    let mut body = begun(&head)?;
    add(&mut body, &head, &first, true)?;
    if is_all {
        body.extend(ended(&head)?);
        return Ok(json(body));
    }
    let rest = Rest { head, pages, over: false };
    let pieces = stream::try_unfold((Some(body), rest), |(ready, mut rest)| async move {
        let piece = match ready {
            Some(ready) => Some(ready),
            None => rest.next().await?,
        };
        Ok::<_, ServiceError>(piece.map(|piece| (Bytes::from(piece), (None, rest))))
    });
    Ok(json(Body::from_stream(pieces)))
}

/// A page of it, and where the next one begins if there is one.
pub(crate) async fn page(
    head: &Head,
    mut pages: Pages,
    limit: u64,
) -> Result<(Vec<u8>, Option<u64>), Failure> {
    let size = usize::try_from(limit).unwrap_or(PAGE);
    let events = if size == 0 { Vec::new() } else { pages.next(size).await? };
    let mut body = begun(head)?;
    add(&mut body, head, &events, true)?;
    body.extend(ended(head)?);
    let last = events.last().map(|(place, _)| *place).filter(|place| *place < head.last_seq);
    Ok((body, last.filter(|_| events.len() == size)))
}

pub(crate) fn without_events(head: &Head) -> Result<Vec<u8>, Failure> {
    let mut body = begun(head)?;
    body.extend(ended(head)?);
    Ok(body)
}

struct Rest {
    head: Head,
    pages: Pages,
    over: bool,
}

impl Rest {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ServiceError> {
        if self.over {
            return Ok(None);
        }
        let events = self.pages.next(PAGE).await?;
        let mut piece = Vec::new();
        let written = add(&mut piece, &self.head, &events, false).and_then(|()| ended(&self.head));
        let end = written.map_err(|error| ServiceError::Store(error.into()))?;
        // What was appended since the head was read belongs to a later answer.
        let is_past = events.last().is_none_or(|(place, _)| *place >= self.head.last_seq);
        if events.len() < PAGE || is_past {
            self.over = true;
            piece.extend(end);
        }
        Ok(Some(piece))
    }
}

fn begun(head: &Head) -> Written<Vec<u8>> {
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

fn add(body: &mut Vec<u8>, head: &Head, events: &[(u64, Event)], mut first: bool) -> Written<()> {
    for (_, event) in events.iter().filter(|(place, _)| *place <= head.last_seq) {
        if !std::mem::take(&mut first) {
            body.push(b',');
        }
        serde_json::to_writer(&mut *body, event)?;
    }
    Ok(())
}

fn ended(head: &Head) -> Written<Vec<u8>> {
    let mut body = b"],\"lastUpdateTime\":".to_vec();
    serde_json::to_writer(&mut body, &Value::from(head.last_update_time))?;
    body.push(b'}');
    Ok(body)
}
