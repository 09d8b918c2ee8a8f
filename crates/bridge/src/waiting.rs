//! A message as it waits in the inbox: all that is needed to answer it when its sender is gone.

use adk::{
    content::Content,
    runner::{Input, RunConfig, RunRequest, StreamingMode},
    session::SessionKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    input: Asked,
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
enum Asked {
    Message(Content),
    Again,
    Resume,
}

impl Waiting {
    /// The request as JSON text.
    pub(crate) fn payload(request: &RunRequest) -> String {
        let waiting = Self {
            input: match &request.input {
                Input::Message(content) => Asked::Message(content.clone()),
                Input::Again => Asked::Again,
                Input::Resume => Asked::Resume,
            },
            state_delta: request.state_delta.clone(),
            message_metadata: request.message_metadata.clone(),
            custom_metadata: request.config.custom_metadata.clone(),
            streaming: request.config.streaming == StreamingMode::Sse,
            max_llm_calls: request.config.max_llm_calls,
            tool_timeout: request.config.tool_timeout,
        };
        // Maps with names for keys are always JSON; what could not be read would be left aside.
        serde_json::to_string(&waiting).unwrap_or_default()
    }

    pub(crate) fn into_request(self, key: SessionKey) -> RunRequest {
        RunRequest {
            key,
            input: match self.input {
                Asked::Message(content) => Input::Message(content),
                Asked::Again => Input::Again,
                Asked::Resume => Input::Resume,
            },
            // What goes on has the turn, and does not wait.
            goes_on: false,
            state_delta: self.state_delta,
            message_metadata: self.message_metadata,
            config: RunConfig {
                streaming: if self.streaming { StreamingMode::Sse } else { StreamingMode::None },
                max_llm_calls: self.max_llm_calls,
                tool_timeout: self.tool_timeout,
                custom_metadata: self.custom_metadata,
                // Whoever takes it up has a trace and limits of its own.
                ..RunConfig::default()
            },
            cancel: CancellationToken::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_of_a_request_is_lost_while_it_waits() {
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
            let waiting: Waiting = serde_json::from_str(&Waiting::payload(&request)).unwrap();
            let back = waiting.into_request(key.clone());
            assert_eq!(format!("{:?}", back.input), format!("{:?}", request.input));
            assert_eq!(format!("{:?}", back.config), format!("{:?}", request.config));
            assert_eq!(back.state_delta, request.state_delta);
            assert_eq!(back.message_metadata, request.message_metadata);
        }
    }
}
