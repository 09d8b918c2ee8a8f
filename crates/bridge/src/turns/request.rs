//! A queued message: all that is needed to run it in another process, and the fingerprint of an idempotent request.

use adk::{
    content::Content,
    runner::{Input, RunConfig, RunRequest, StreamingMode},
    session::SessionKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fmt::Write as _, time::Duration};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuedRequest {
    input: QueuedInput,
    #[serde(default)]
    state_delta: Map<String, Value>,
    #[serde(default)]
    message_metadata: Map<String, Value>,
    #[serde(default)]
    custom_metadata: Option<Map<String, Value>>,
    #[serde(default)]
    streaming: bool,
    max_llm_calls: u32,
    tool_timeout: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum QueuedInput {
    Message(Content),
    Again,
    Resume,
}

impl QueuedRequest {
    fn new(request: &RunRequest) -> Self {
        Self {
            input: match &request.input {
                Input::Message(content) => QueuedInput::Message(content.clone()),
                Input::Again => QueuedInput::Again,
                Input::Resume => QueuedInput::Resume,
            },
            state_delta: request.state_delta.clone(),
            message_metadata: request.message_metadata.clone(),
            custom_metadata: request.config.custom_metadata.clone(),
            streaming: request.config.streaming == StreamingMode::Sse,
            max_llm_calls: request.config.max_llm_calls,
            tool_timeout: request.config.tool_timeout,
        }
    }

    /// The request as JSON text.
    pub(crate) fn payload(request: &RunRequest) -> String {
        // Maps with names for keys are always JSON; what could not be read would be left aside.
        serde_json::to_string(&Self::new(request)).unwrap_or_default()
    }

    /// A digest of what a request asks for. The order of keys and the notation of numbers do not matter.
    pub(crate) fn fingerprint(request: &RunRequest) -> String {
        let mut canonical = String::new();
        write_canonical(&serde_json::to_value(Self::new(request)).unwrap_or_default(), &mut canonical);
        let digest = ring::digest::digest(&ring::digest::SHA256, canonical.as_bytes());
        let mut hex = String::with_capacity(2 * digest.as_ref().len());
        for byte in digest.as_ref() {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    pub(crate) fn into_request(self, key: SessionKey) -> RunRequest {
        RunRequest {
            key,
            input: match self.input {
                QueuedInput::Message(content) => Input::Message(content),
                QueuedInput::Again => Input::Again,
                QueuedInput::Resume => Input::Resume,
            },
            // A run that continues holds the lease, and is never queued.
            goes_on: false,
            state_delta: self.state_delta,
            message_metadata: self.message_metadata,
            config: RunConfig {
                streaming: if self.streaming { StreamingMode::Sse } else { StreamingMode::None },
                max_llm_calls: self.max_llm_calls,
                tool_timeout: self.tool_timeout,
                custom_metadata: self.custom_metadata,
                // The process that runs it has a trace and limits of its own.
                ..RunConfig::default()
            },
            cancel: CancellationToken::new(),
        }
    }
}

/// JSON with sorted keys and one notation for each number.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in entries {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for value in values {
                write_canonical(value, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str(&number.to_string()),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_queued_request_is_restored_as_it_was() {
        let map = |name: &str| Map::from_iter([(name.to_owned(), json!(1))]);
        let key = SessionKey::new("app", "user", "session");
        for input in [Input::Message(Content::user("hello")), Input::Again, Input::Resume] {
            let request = RunRequest {
                key: key.clone(),
                input,
                goes_on: false,
                state_delta: map("state"),
                message_metadata: map("message"),
                config: RunConfig {
                    streaming: StreamingMode::Sse,
                    max_llm_calls: 3,
                    tool_timeout: Duration::from_millis(1_500),
                    custom_metadata: Some(map("custom")),
                    ..RunConfig::default()
                },
                cancel: CancellationToken::new(),
            };
            let queued: QueuedRequest = serde_json::from_str(&QueuedRequest::payload(&request)).unwrap();
            let back = queued.into_request(key.clone());
            assert_eq!(format!("{:?}", back.input), format!("{:?}", request.input));
            assert_eq!(format!("{:?}", back.config), format!("{:?}", request.config));
            assert_eq!(back.state_delta, request.state_delta);
            assert_eq!(back.message_metadata, request.message_metadata);
        }
    }

    #[test]
    fn fingerprints_compare_meaning_and_not_notation() {
        let request = |json: &str| RunRequest {
            state_delta: serde_json::from_str(json).unwrap(),
            ..RunRequest::message(SessionKey::new("app", "user", "session"), Content::user("hello"))
        };
        let print = |json: &str| QueuedRequest::fingerprint(&request(json));
        assert_eq!(
            print(r#"{"a": 1, "b": [1.0, {"x": null, "y": "z"}]}"#),
            print(r#"{"b":[1,{"y":"z","x":null}],"a":1.0}"#)
        );
        for other in [r#"{"a": 2}"#, r#"{"a": "1"}"#, r#"{"a": true}"#, "{}", r#"{"a": [1]}"#] {
            assert_ne!(print(r#"{"a": 1}"#), print(other));
        }
        let streamed = RunRequest {
            config: RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() },
            ..request("{}")
        };
        assert_ne!(QueuedRequest::fingerprint(&streamed), print("{}"));
    }
}
