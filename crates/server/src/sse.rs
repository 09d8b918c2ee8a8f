//! The events of a run as server-sent events. Each has the reader's cursor as its id, so that a reader that reconnects misses
//! nothing.

use crate::{metrics::SseReaderGuard, state::ServerState};
use adk::event::{Event, now};
use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use bridge::runs::{Reader, ReaderItem, RunEntry, RunOutcome};
use futures::stream;
use serde_json::{Map, Value};
use std::{convert::Infallible, sync::Arc, time::Duration};

/// Interval of comments on an idle stream, which keep proxies from closing it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether an event with both content and an artifact delta becomes two events, as ADK's `/run_sse` sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArtifactSplit {
    Split,
    Keep,
}

/// A response that streams the events of a run.
pub(crate) fn stream_events(reader: Reader, split: ArtifactSplit, server: &ServerState) -> Response {
    let events =
        RunEventStream { reader, split, last: None, is_over: false, _guard: server.count_sse_reader() };
    let chunks = stream::unfold(events, |mut events| async move {
        let chunk = events.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), events))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(chunks)).into_response()
}

struct RunEventStream {
    reader: Reader,
    split: ArtifactSplit,
    last: Option<Arc<Event>>,
    is_over: bool,
    _guard: SseReaderGuard,
}

impl RunEventStream {
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        let Ok(next) = tokio::time::timeout(KEEP_ALIVE, self.reader.next()).await else {
            return Some(": keep-alive\n\n".to_owned());
        };
        match next {
            Ok(ReaderItem::Entry(entry)) => {
                let chunk = format_entry(&entry, self.split);
                self.last = Some(entry.event);
                Some(chunk)
            }
            Ok(ReaderItem::End(end)) => {
                self.is_over = true;
                self.format_end(end)
            }
            Err(error) => {
                self.is_over = true;
                Some(format_error("StoreError", &error.to_string()))
            }
        }
    }

    fn format_end(&self, end: RunOutcome) -> Option<String> {
        match end {
            RunOutcome::Done => None,
            RunOutcome::Cancelled => Some(format_error("Cancelled", "the run was cancelled")),
            RunOutcome::NotFound => Some(format_error("SessionNotFound", "the session does not exist")),
            RunOutcome::UnknownCall { message } => Some(format_error("UnknownCall", &message)),
            RunOutcome::Failed { message, .. } => {
                let (kind, message) = failure_details(self.last.as_deref(), message);
                Some(format_error(&kind, &message))
            }
        }
    }
}

/// The kind and the message of a failure: those of the last event if it holds an error, else `RunError` and `message`.
pub(crate) fn failure_details(last: Option<&Event>, message: String) -> (String, String) {
    match last.and_then(|event| event.error_code.clone().zip(event.error_message.clone())) {
        Some(details) => details,
        None => ("RunError".to_owned(), message),
    }
}

fn format_entry(entry: &RunEntry, split: ArtifactSplit) -> String {
    let id = entry.cursor.to_id();
    let event = &entry.event;
    if split == ArtifactSplit::Keep || event.content.is_none() || event.actions.artifact_delta.is_empty() {
        return format!("id: {id}\ndata: {}\n\n", entry.json);
    }
    let mut content = (**event).clone();
    content.actions.artifact_delta = Map::new();
    let mut artifacts = (**event).clone();
    artifacts.content = None;
    // Only the second half has the id: a reader that reconnects after the first half gets both again.
    format!("data: {}\n\nid: {id}\ndata: {}\n\n", to_json(&content), to_json(&artifacts))
}

fn to_json(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

/// An error event, with the spaces of Python's `json.dumps`.
fn format_error(kind: &str, message: &str) -> String {
    let quote = |text: &str| Value::from(text).to_string();
    format!(
        "data: {{\"error\": {}, \"error_details\": {{\"error_type\": {}, \"error_message\": {}, \"timestamp\": {}}}}}\n\n",
        quote(&format!("{kind}: {message}")),
        quote(kind),
        quote(message),
        now()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::content::Content;
    use bridge::runs::Cursor;
    use serde_json::json;

    fn entry(event: Event) -> RunEntry {
        let json = to_json(&event).into();
        RunEntry { cursor: Cursor { stored: 3, partial: 0 }, event: Arc::new(event), json }
    }

    #[test]
    fn an_event_with_content_and_artifacts_is_split_into_two_with_one_id() {
        let mut event = Event { content: Some(Content::model("done")), ..Event::new("e-1", "agent") };
        event.actions.artifact_delta.insert("a.txt".to_owned(), json!(0));
        let chunk = format_entry(&entry(event.clone()), ArtifactSplit::Split);
        let lines: Vec<&str> = chunk.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].contains("done") && lines[0].contains(r#""artifactDelta":{}"#), "{}", lines[0]);
        assert_eq!(lines[1], "id: 3");
        assert!(
            !lines[2].contains("done") && lines[2].contains(r#""artifactDelta":{"a.txt":0}"#),
            "{}",
            lines[2]
        );
        assert_eq!(format_entry(&entry(event), ArtifactSplit::Keep).matches("data: ").count(), 1);
    }

    #[test]
    fn a_failure_has_the_error_of_the_last_event() {
        let event = Event {
            error_code: Some("RuntimeError".to_owned()),
            error_message: Some("it broke".to_owned()),
            ..Event::new("e-1", "agent")
        };
        let (kind, message) = failure_details(Some(&event), "something".to_owned());
        let chunk = format_error(&kind, &message);
        assert!(
            chunk
                .starts_with(r#"data: {"error": "RuntimeError: it broke", "error_details": {"error_type": "#),
            "{chunk}"
        );
        assert!(chunk.ends_with("}}\n\n"), "{chunk}");
    }
}
