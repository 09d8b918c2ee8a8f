//! Events as they happen: one piece of the body for each, with its place, so that a reader that comes back misses nothing.

use crate::state::{ServerState, SseReaderGuard};
use adk::event::{Event, now};
use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use bridge::runs::{End, Entry, Reader};
use futures::stream;
use serde_json::{Map, Value};
use std::{convert::Infallible, sync::Arc, time::Duration};

/// A stream in which nothing happens says so, for whatever stands between it and its reader.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What is told as two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArtifactSplit {
    /// Contents that came with files, as ADK tells them.
    Split,
    Keep,
}

pub(crate) fn answer(reader: Reader, splits: ArtifactSplit, server: &ServerState) -> Response {
    let told = RunEventStream { reader, splits, last: None, over: false, _reading: server.reading() };
    let pieces = stream::unfold(told, |mut told| async move {
        let piece = told.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), told))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(pieces)).into_response()
}

/// A reader that is being told.
struct RunEventStream {
    reader: Reader,
    splits: ArtifactSplit,
    last: Option<Arc<Event>>,
    over: bool,
    _reading: SseReaderGuard,
}

impl RunEventStream {
    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        let Ok(next) = tokio::time::timeout(KEEP_ALIVE, self.reader.next()).await else {
            return Some(": still here\n\n".to_owned());
        };
        match next {
            Ok(Ok(entry)) => {
                let piece = piece(&entry, self.splits);
                self.last = Some(entry.event);
                Some(piece)
            }
            Ok(Err(end)) => {
                self.over = true;
                self.ended(end)
            }
            Err(error) => {
                self.over = true;
                Some(error_line("StoreError", &error.to_string()))
            }
        }
    }

    fn ended(&self, end: End) -> Option<String> {
        match end {
            End::Done => None,
            End::Cancelled => Some(error_line("Cancelled", "the run was cancelled")),
            End::NotFound => Some(error_line("SessionNotFound", "the session is not there any more")),
            End::Unasked { message } => Some(error_line("UnknownCall", &message)),
            End::Failed { message, .. } => {
                let (kind, message) = failure(self.last.as_deref(), message);
                Some(error_line(&kind, &message))
            }
        }
    }
}

/// What failed, in the words of the event that told it if there is one.
pub(crate) fn failure(last: Option<&Event>, message: String) -> (String, String) {
    match last.and_then(|event| event.error_code.clone().zip(event.error_message.clone())) {
        Some(told) => told,
        None => ("RunError".to_owned(), message),
    }
}

fn piece(entry: &Entry, splits: ArtifactSplit) -> String {
    let id = entry.place.to_id();
    let event = &entry.event;
    if splits == ArtifactSplit::Keep || event.content.is_none() || event.actions.artifact_delta.is_empty() {
        return format!("id: {id}\ndata: {}\n\n", entry.json);
    }
    let mut said = (**event).clone();
    said.actions.artifact_delta = Map::new();
    let mut files = (**event).clone();
    files.content = None;
    // The place is behind both of them.
    format!("data: {}\n\nid: {id}\ndata: {}\n\n", written(&said), written(&files))
}

fn written(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

/// As Python prints it, spaces and all.
fn error_line(kind: &str, message: &str) -> String {
    let text = |text: &str| Value::from(text).to_string();
    format!(
        "data: {{\"error\": {}, \"error_details\": {{\"error_type\": {}, \"error_message\": {}, \"timestamp\": {}}}}}\n\n",
        text(&format!("{kind}: {message}")),
        text(kind),
        text(message),
        now()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::content::Content;
    use bridge::runs::Place;
    use serde_json::json;

    fn entry(event: Event) -> Entry {
        let json = written(&event).into();
        Entry { place: Place { stored: 3, partial: 0 }, event: Arc::new(event), json }
    }

    #[test]
    fn a_content_with_files_is_told_as_two_events_with_one_place() {
        let mut event = Event { content: Some(Content::model("done")), ..Event::new("e-1", "agent") };
        event.actions.artifact_delta.insert("a.txt".to_owned(), json!(0));
        let told = piece(&entry(event.clone()), ArtifactSplit::Split);
        let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].contains("done") && lines[0].contains(r#""artifactDelta":{}"#), "{}", lines[0]);
        assert_eq!(lines[1], "id: 3");
        assert!(
            !lines[2].contains("done") && lines[2].contains(r#""artifactDelta":{"a.txt":0}"#),
            "{}",
            lines[2]
        );
        assert_eq!(piece(&entry(event), ArtifactSplit::Keep).matches("data: ").count(), 1);
    }

    #[test]
    fn a_failure_that_an_event_told_is_told_in_its_words() {
        let event = Event {
            error_code: Some("RuntimeError".to_owned()),
            error_message: Some("it broke".to_owned()),
            ..Event::new("e-1", "agent")
        };
        let (kind, message) = failure(Some(&event), "something".to_owned());
        let line = error_line(&kind, &message);
        assert!(
            line.starts_with(r#"data: {"error": "RuntimeError: it broke", "error_details": {"error_type": "#),
            "{line}"
        );
        assert!(line.ends_with("}}\n\n"), "{line}");
    }
}
