//! Events: the entries of a session's log, with author, content and actions.

use crate::{
    content::{Content, FunctionCall, FunctionResponse, Part},
    notes::{CORRECTION, PRELOADED_MEMORY},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared_text::SharedText;
use std::time::{SystemTime, UNIX_EPOCH};

/// An event with ADK's field names and field order. Unknown fields are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    #[serde(alias = "model_version", skip_serializing_if = "Option::is_none")]
    pub model_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// `true` on a chunk of a streamed answer: emitted, never stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    #[serde(alias = "turn_complete", skip_serializing_if = "Option::is_none")]
    pub turn_complete: Option<bool>,
    #[serde(alias = "finish_reason", skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    #[serde(alias = "error_code", skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(alias = "error_message", skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// `true` on the emitted part of an answer whose stream failed, was cancelled, or ended with its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    #[serde(alias = "custom_metadata", skip_serializing_if = "Option::is_none")]
    pub custom_metadata: Option<Map<String, Value>>,
    #[serde(alias = "usage_metadata", skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<UsageMetadata>,
    #[serde(alias = "invocation_id")]
    pub invocation_id: String,
    pub author: String,
    pub actions: EventActions,
    #[serde(alias = "node_info")]
    pub node_info: NodeInfo,
    /// Present on every event with calls, possibly empty.
    #[serde(alias = "long_running_tool_ids", skip_serializing_if = "Option::is_none")]
    pub long_running_tool_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub id: String,
    pub timestamp: f64,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Event {
    /// A new event of `author` with a fresh id and the current time.
    pub fn new(invocation_id: impl Into<String>, author: impl Into<String>) -> Self {
        Self {
            invocation_id: invocation_id.into(),
            author: author.into(),
            id: mint_id(),
            timestamp: now(),
            ..Self::default()
        }
    }

    pub fn calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.content.iter().flat_map(Content::calls)
    }

    pub fn responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.content.iter().flat_map(Content::responses)
    }

    pub fn is_partial(&self) -> bool {
        self.partial == Some(true)
    }

    pub fn is_from_user(&self) -> bool {
        self.author == "user"
    }

    /// Whether it is a correction that the program wrote in the user's name.
    pub fn is_correction(&self) -> bool {
        self.custom_metadata.as_ref().is_some_and(|metadata| metadata.contains_key(CORRECTION))
    }

    /// What was found in the user's memory for this message.
    pub fn preloaded_memory(&self) -> Option<&str> {
        let metadata = self.custom_metadata.as_ref().filter(|_| self.is_user_message())?;
        metadata.get(PRELOADED_MEMORY).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Whether it is a message of the user, and not a response or a correction.
    pub fn is_user_message(&self) -> bool {
        self.is_from_user() && self.responses().next().is_none() && !self.is_correction()
    }

    /// Whether an exchange begins here: a user's message or an event of an agent, with more than the results of calls.
    pub(crate) fn begins_exchange(&self) -> bool {
        let is_shown = |part: &Part| !part.is_empty() && part.response().is_none();
        !self.is_partial() && self.content.iter().flat_map(|content| &content.parts).any(is_shown)
    }

    /// The texts of a message of the user; `None` if it has none.
    pub fn user_request(&self) -> Option<SharedText> {
        let content = self.content.as_ref().filter(|_| self.is_from_user() && !self.is_correction())?;
        if matches!(content.role.as_deref(), Some("model" | "assistant")) {
            return None;
        }
        let texts = content.parts.iter().filter(|part| !part.is_thought()).filter_map(Part::as_text);
        let mut texts: Vec<&str> = texts.collect();
        texts.retain(|text| !text.trim().is_empty());
        (!texts.is_empty()).then(|| SharedText::from(texts.join("\n")))
    }

    /// Whether it is the emitted part of an interrupted answer. Such an event has no calls.
    pub fn is_interrupted_answer(&self) -> bool {
        self.interrupted == Some(true)
            && !self.is_from_user()
            && self.content.is_some()
            && self.calls().next().is_none()
            && self.responses().next().is_none()
    }

    /// Whether it only changes the state (spec C3).
    pub fn is_state_only(&self) -> bool {
        self.content.is_none()
            && self.error_code.is_none()
            && !self.actions.state_delta.is_empty()
            && EventActions { state_delta: Map::new(), ..self.actions.clone() } == EventActions::default()
    }

    /// ADK's `is_final_response`: the run ends after this event.
    pub fn is_final_response(&self) -> bool {
        if self.actions.skip_summarization == Some(true) {
            return true;
        }
        if self.long_running_tool_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            return true;
        }
        !self.is_partial() && self.calls().next().is_none() && self.responses().next().is_none()
    }
}

/// Side effects of an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventActions {
    #[serde(alias = "skip_summarization", skip_serializing_if = "Option::is_none")]
    pub skip_summarization: Option<bool>,
    #[serde(alias = "state_delta")]
    pub state_delta: Map<String, Value>,
    #[serde(alias = "artifact_delta")]
    pub artifact_delta: Map<String, Value>,
    #[serde(alias = "transfer_to_agent", skip_serializing_if = "Option::is_none")]
    pub transfer_to_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<bool>,
    #[serde(alias = "requested_auth_configs")]
    pub requested_auth_configs: Map<String, Value>,
    /// Keyed by the id of the call that requires a confirmation.
    #[serde(alias = "requested_tool_confirmations")]
    pub requested_tool_confirmations: Map<String, Value>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl EventActions {
    /// Merges the actions of another call of the same step.
    pub fn merge(&mut self, other: Self) {
        self.skip_summarization = self.skip_summarization.or(other.skip_summarization);
        self.transfer_to_agent = self.transfer_to_agent.take().or(other.transfer_to_agent);
        self.escalate = self.escalate.or(other.escalate);
        self.state_delta.extend(other.state_delta);
        self.artifact_delta.extend(other.artifact_delta);
        self.requested_auth_configs.extend(other.requested_auth_configs);
        self.requested_tool_confirmations.extend(other.requested_tool_confirmations);
        self.extra.extend(other.extra);
    }
}

/// A request to confirm a call, or the user's reply to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolConfirmation {
    #[serde(default)]
    pub hint: String,
    #[serde(default)]
    pub confirmed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// The position of the author in the tree of agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    #[serde(default)]
    pub path: String,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Token counts of one model call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageMetadata {
    #[serde(alias = "cached_content_token_count", skip_serializing_if = "Option::is_none")]
    pub cached_content_token_count: Option<u64>,
    #[serde(alias = "candidates_token_count", skip_serializing_if = "Option::is_none")]
    pub candidates_token_count: Option<u64>,
    #[serde(alias = "prompt_token_count", skip_serializing_if = "Option::is_none")]
    pub prompt_token_count: Option<u64>,
    #[serde(alias = "thoughts_token_count", skip_serializing_if = "Option::is_none")]
    pub thoughts_token_count: Option<u64>,
    #[serde(alias = "total_token_count", skip_serializing_if = "Option::is_none")]
    pub total_token_count: Option<u64>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

pub fn mint_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub fn mint_invocation_id() -> String {
    format!("e-{}", uuid::Uuid::new_v4())
}

/// An id for a call without one.
pub fn mint_call_id() -> String {
    format!("adk-{}", uuid::Uuid::new_v4())
}

/// Seconds since the epoch. A clock before 1970 counts as 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
