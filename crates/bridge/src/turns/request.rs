//! The stored form of a request, so that another process can run it: a queued message, the options of a running run,
//! and the fingerprint of an idempotent request.

use crate::digest::sha256_hex;
use adk::{
    content::Content,
    runner::{Input, RunConfig, RunRequest, StreamingMode},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuedRequest {
    input: QueuedInput,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invocation_id: Option<String>,
    #[serde(default)]
    state_delta: Map<String, Value>,
    #[serde(default)]
    message_metadata: Map<String, Value>,
    #[serde(flatten)]
    options: RunOptions,
}

/// The options of a run. Stored with a running run: besides the log, a process that resumes it has nothing else.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOptions {
    #[serde(default)]
    custom_metadata: Option<Map<String, Value>>,
    #[serde(default)]
    streaming: bool,
    max_llm_calls: u32,
    tool_timeout: Duration,
}

impl RunOptions {
    fn new(config: &RunConfig) -> Self {
        Self {
            custom_metadata: config.custom_metadata.clone(),
            streaming: config.streaming == StreamingMode::Sse,
            max_llm_calls: config.max_llm_calls,
            tool_timeout: config.tool_timeout,
        }
    }

    /// Encodes the options as JSON; `None` for the defaults.
    pub(crate) fn encode(config: &RunConfig) -> Option<String> {
        let options = Self::new(config);
        (options != Self::new(&RunConfig::default())).then(|| serde_json::to_string(&options).ok())?
    }

    /// Decodes stored options. Missing or unreadable options are the defaults.
    pub(crate) fn from_stored(stored: Option<&str>) -> Self {
        let options = stored.and_then(|stored| serde_json::from_str(stored).ok());
        options.unwrap_or_else(|| Self::new(&RunConfig::default()))
    }

    /// The configuration for this process. Streams if the request did, or if `listener` does.
    pub(crate) fn into_config(self, listener: &RunConfig) -> RunConfig {
        let is_streamed = self.streaming || listener.streaming == StreamingMode::Sse;
        RunConfig {
            streaming: if is_streamed { StreamingMode::Sse } else { StreamingMode::None },
            max_llm_calls: self.max_llm_calls,
            tool_timeout: self.tool_timeout,
            custom_metadata: self.custom_metadata,
            // Trace and limits are those of the process that runs it.
            ..RunConfig::default()
        }
    }
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
            invocation_id: request.invocation_id.clone(),
            state_delta: request.state_delta.clone(),
            message_metadata: request.message_metadata.clone(),
            options: RunOptions::new(&request.config),
        }
    }

    /// Encodes the request as JSON.
    pub(crate) fn payload(request: &RunRequest) -> String {
        // Cannot fail: all map keys are strings.
        serde_json::to_string(&Self::new(request)).unwrap_or_default()
    }

    /// The digest of the request, which is stored with its idempotency key. The order of keys and the notation of numbers
    /// are irrelevant.
    pub(crate) fn fingerprint(request: &RunRequest) -> String {
        let mut canonical = String::new();
        write_canonical(&serde_json::to_value(Self::new(request)).unwrap_or_default(), &mut canonical);
        sha256_hex(canonical.as_bytes())
    }

    /// Decodes the request for this process, with the cancellation and streaming of `listener`.
    pub(crate) fn into_request(self, listener: &RunRequest) -> RunRequest {
        RunRequest {
            key: listener.key.clone(),
            input: match self.input {
                QueuedInput::Message(content) => Input::Message(content),
                QueuedInput::Again => Input::Again,
                QueuedInput::Resume => Input::Resume,
            },
            invocation_id: self.invocation_id,
            // A run that continues holds the lease, and is never queued.
            continue_run: false,
            state_delta: self.state_delta,
            message_metadata: self.message_metadata,
            config: self.options.into_config(&listener.config),
            cancel: listener.cancel.clone(),
        }
    }
}

/// Writes JSON with sorted keys and one notation per number.
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
    use adk::session::SessionKey;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn queued_request_round_trips() {
        let map = |name: &str| Map::from_iter([(name.to_owned(), json!(1))]);
        let key = SessionKey::new("app", "user", "session");
        for input in [Input::Message(Content::user("hello")), Input::Again, Input::Resume] {
            let request = RunRequest {
                key: key.clone(),
                input,
                invocation_id: Some("chosen".to_owned()),
                continue_run: false,
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
            let listener = RunRequest::message(key.clone(), Content::default());
            let back = queued.into_request(&listener);
            assert_eq!(format!("{:?}", back.input), format!("{:?}", request.input));
            assert_eq!(format!("{:?}", back.config), format!("{:?}", request.config));
            assert_eq!(back.invocation_id, request.invocation_id);
            assert_eq!(back.state_delta, request.state_delta);
            assert_eq!(back.message_metadata, request.message_metadata);
        }
    }

    #[test]
    fn stored_options_configure_a_resumed_run() {
        let listener = RunConfig::default();
        let config = RunConfig {
            streaming: StreamingMode::Sse,
            max_llm_calls: 3,
            tool_timeout: Duration::from_millis(1_500),
            custom_metadata: Some(Map::from_iter([("custom".to_owned(), json!(1))])),
            ..RunConfig::default()
        };
        let stored = RunOptions::encode(&config);
        let resumed = RunOptions::from_stored(stored.as_deref()).into_config(&listener);
        assert_eq!(format!("{resumed:?}"), format!("{config:?}"));
        assert_eq!(RunOptions::encode(&listener), None, "defaults take no space");
        for stored in [None, Some("{"), Some("{}")] {
            let resumed = RunOptions::from_stored(stored).into_config(&listener);
            assert_eq!(format!("{resumed:?}"), format!("{listener:?}"));
        }
    }

    #[test]
    fn resumed_run_streams_if_the_listener_does() {
        let streamed = RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() };
        let resumed = RunOptions::from_stored(None).into_config(&streamed);
        assert_eq!(resumed.streaming, StreamingMode::Sse);
    }

    #[test]
    fn fingerprint_ignores_json_notation() {
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
        let named = RunRequest { invocation_id: Some("chosen".to_owned()), ..request("{}") };
        assert_ne!(QueuedRequest::fingerprint(&named), print("{}"));
        let streamed = RunRequest {
            config: RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() },
            ..request("{}")
        };
        assert_ne!(QueuedRequest::fingerprint(&streamed), print("{}"));
    }
}
