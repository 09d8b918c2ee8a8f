//! The events of a run as one JSON list. A short list is collected; a long one is read again and streamed, so that an unread
//! response holds little memory.

use crate::{
    charged_reader::{ChargedReader, ResponsePart},
    error::ApiError,
    handlers::json_response,
    response_budget::ResponseBudget,
};
use adk::error::ServiceError;
use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bridge::runs::{Reader, RunEntry};
use futures::stream;
use std::future::Future;

/// The maximum size of a list that is collected.
const MAX_COLLECTED: usize = 256 * 1024;

/// The events of a run that has not ended: the status of the response is known only at its end.
#[derive(Debug, Default)]
pub(crate) struct EventList {
    json: Vec<u8>,
    is_long: bool,
}

impl EventList {
    pub(crate) fn push(&mut self, event: &str) {
        self.is_long |= self.json.len() + event.len() > MAX_COLLECTED;
        if self.is_long {
            self.json = Vec::new();
        } else {
            self.json.push(if self.json.is_empty() { b'[' } else { b',' });
            self.json.extend(event.as_bytes());
        }
    }

    /// The response. `again` opens another reader at the same cursor, for a long list.
    pub(crate) async fn respond<F>(
        mut self,
        budget: &ResponseBudget,
        again: impl FnOnce() -> F,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = Result<Option<Reader>, ServiceError>>,
    {
        if !self.is_long {
            self.json.extend(if self.json.is_empty() { &b"[]"[..] } else { b"]" });
            return Ok(json_response(self.json));
        }
        let reader = again().await?.ok_or_else(|| ApiError::not_found("Run not found"))?;
        let reader = ChargedReader::new(reader, budget);
        let chunks = stream::try_unfold(Some((reader, '[')), next_chunk);
        Ok(json_response(Body::from_stream(chunks)))
    }
}

/// A reader, and the character before its next event; `None` after the end of the list.
type ListPosition = Option<(ChargedReader, char)>;

async fn next_chunk(position: ListPosition) -> Result<Option<(Bytes, ListPosition)>, ServiceError> {
    let Some((mut reader, separator)) = position else { return Ok(None) };
    loop {
        let format =
            |entry: &RunEntry| (!entry.event.is_partial()).then(|| format!("{separator}{}", entry.json));
        match reader.next(format).await? {
            ResponsePart::Skipped => {}
            ResponsePart::Bytes(chunk) => return Ok(Some((chunk, Some((reader, ','))))),
            ResponsePart::End(_) => {
                // Without any event the session was deleted in between.
                let end: &[u8] = if separator == '[' { b"[]" } else { b"]" };
                return Ok(Some((Bytes::from_static(end), None)));
            }
        }
    }
}
