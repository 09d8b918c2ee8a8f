//! The events of a run as server-sent events: on `/run_sse` in ADK's framing, on `…/runs/{id}/events` with cursors for readers
//! that reconnect.

use crate::{
    charged_reader::{ChargedReader, ResponsePart},
    error::ApiError,
    metrics::SseReaderGuard,
    state::ServerState,
};
use adk::event::{Event, now};
use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bridge::runs::{Reader, RunEntry, RunOutcome};
use futures::stream;
use serde_json::{Map, Value};
use std::{convert::Infallible, time::Duration};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
/// Interval of comments on an idle stream, which keep proxies from closing it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether an event with both content and an artifact delta becomes two events, as ADK's `/run_sse` sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArtifactSplit {
    Split,
    Keep,
}

/// The framing of a stream. In both, an idle stream gets comments in separate blocks, which the known clients of ADK skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SseFraming {
    /// Each block is one `data:` line. Google's JavaScript client parses everything after the first `data: ` of a block as JSON,
    /// and skips blocks that begin with another field.
    Adk(ArtifactSplit),
    /// Each event has the reader's cursor as its id.
    WithCursor,
}

/// A response that streams the events of a run.
pub(crate) fn stream_events(reader: Reader, framing: SseFraming, server: &ServerState) -> Response {
    let reader = ChargedReader::new(reader, &server.response_budget);
    let guard = server.count_sse_reader();
    let events = RunEventStream { reader, framing, last_error: None, is_over: false, _guard: guard };
    let chunks = stream::unfold(events, |mut events| async move {
        let chunk = events.next().await?;
        Some((Ok::<_, Infallible>(chunk), events))
    });
    stream_response(Body::from_stream(chunks))
}

/// A stream whose only item is an error.
pub(crate) fn failed_stream(kind: &str, message: &str) -> Response {
    // A stream of one chunk: clients expect a body without a length.
    let chunk = Ok::<_, Infallible>(Bytes::from(format_error(kind, message)));
    stream_response(Body::from_stream(stream::iter([chunk])))
}

fn stream_response(body: Body) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    let headers = [(header::CONTENT_TYPE, EVENT_STREAM), (header::CACHE_CONTROL, no_store)];
    (headers, body).into_response()
}

/// The response to a request whose run did not start, as an error event. The status is that of the error.
pub(crate) fn error_response(error: ApiError) -> Response {
    let message = match &error.detail {
        Value::String(message) => message.clone(),
        errors => errors.to_string(),
    };
    let event = format_error(error.kind.unwrap_or("RequestError"), &message);
    let mut response = error.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, EVENT_STREAM);
    *response.body_mut() = Body::from(event);
    response
}

struct RunEventStream {
    reader: ChargedReader,
    framing: SseFraming,
    /// Code and message of the last event, if it is an error.
    last_error: Option<(String, String)>,
    is_over: bool,
    _guard: SseReaderGuard,
}

impl RunEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let (framing, last_error) = (self.framing, &mut self.last_error);
        let next = self.reader.next(|entry| {
            *last_error = error_of(&entry.event);
            Some(format_entry(entry, framing))
        });
        let Ok(next) = tokio::time::timeout(KEEP_ALIVE, next).await else {
            return Some(Bytes::from_static(b": keep-alive\n\n"));
        };
        match next {
            Ok(ResponsePart::Bytes(chunk)) => Some(chunk),
            Ok(ResponsePart::Skipped) => Some(Bytes::new()),
            Ok(ResponsePart::End(end)) => {
                self.is_over = true;
                self.format_end(end).map(Bytes::from)
            }
            Err(error) => {
                self.is_over = true;
                Some(format_error("StoreError", &error.to_string()).into())
            }
        }
    }

    fn format_end(&mut self, end: RunOutcome) -> Option<String> {
        match end {
            RunOutcome::Done => None,
            RunOutcome::Cancelled => Some(format_error("Cancelled", "the run was cancelled")),
            RunOutcome::NotFound => Some(format_error("SessionNotFound", "the session does not exist")),
            RunOutcome::UnknownCall { message } => Some(format_error("UnknownCall", &message)),
            RunOutcome::InvalidAnswer { message } => Some(format_error("InvalidAnswer", &message)),
            RunOutcome::Failed { message, .. } => {
                let (kind, message) = failure_details(self.last_error.take(), message);
                Some(format_error(&kind, &message))
            }
        }
    }
}

/// The code and the message of an error event.
pub(crate) fn error_of(event: &Event) -> Option<(String, String)> {
    event.error_code.clone().zip(event.error_message.clone())
}

/// The kind and the message of a failure: those of the last event if it holds an error, else `RunError` and `message`.
pub(crate) fn failure_details(last: Option<(String, String)>, message: String) -> (String, String) {
    last.unwrap_or_else(|| ("RunError".to_owned(), message))
}

fn format_entry(entry: &RunEntry, framing: SseFraming) -> String {
    let event = &entry.event;
    match framing {
        SseFraming::WithCursor => format!("id: {}\ndata: {}\n\n", entry.cursor.to_id(), entry.json),
        SseFraming::Adk(ArtifactSplit::Split)
            if event.content.is_some() && !event.actions.artifact_delta.is_empty() =>
        {
            let mut content = (**event).clone();
            content.actions.artifact_delta = Map::new();
            let mut artifacts = (**event).clone();
            artifacts.content = None;
            format!("data: {}\n\ndata: {}\n\n", to_json(&content), to_json(&artifacts))
        }
        SseFraming::Adk(_) => format!("data: {}\n\n", entry.json),
    }
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
    use std::sync::Arc;

    fn entry(event: Event) -> RunEntry {
        let json = to_json(&event).into();
        RunEntry { cursor: Cursor { stored: 3, partial: 0 }, event: Arc::new(event), json }
    }

    #[test]
    fn an_event_with_content_and_artifacts_is_split_into_two_blocks() {
        let mut event = Event { content: Some(Content::model("done")), ..Event::new("e-1", "agent") };
        event.actions.artifact_delta.insert("a.txt".to_owned(), json!(0));
        let entry = entry(event);
        let chunk = format_entry(&entry, SseFraming::Adk(ArtifactSplit::Split));
        let [content, artifacts, ""] = chunk.split("\n\n").collect::<Vec<_>>()[..] else { panic!("{chunk}") };
        assert!(content.starts_with("data: {") && content.contains("done"), "{content}");
        assert!(content.contains(r#""artifactDelta":{}"#), "{content}");
        assert!(artifacts.starts_with("data: {") && !artifacts.contains("done"), "{artifacts}");
        assert!(artifacts.contains(r#""artifactDelta":{"a.txt":0}"#), "{artifacts}");
        let whole = format!("data: {}\n\n", entry.json);
        assert_eq!(format_entry(&entry, SseFraming::Adk(ArtifactSplit::Keep)), whole);
        assert_eq!(format_entry(&entry, SseFraming::WithCursor), format!("id: 3\n{whole}"));
    }

    #[test]
    fn a_failure_has_the_error_of_the_last_event() {
        let event = Event {
            error_code: Some("RuntimeError".to_owned()),
            error_message: Some("it broke".to_owned()),
            ..Event::new("e-1", "agent")
        };
        let (kind, message) = failure_details(error_of(&event), "something".to_owned());
        let chunk = format_error(&kind, &message);
        assert!(
            chunk
                .starts_with(r#"data: {"error": "RuntimeError: it broke", "error_details": {"error_type": "#),
            "{chunk}"
        );
        assert!(chunk.ends_with("}}\n\n"), "{chunk}");
    }
}
