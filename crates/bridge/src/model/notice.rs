//! Notices to the client while a model call has no answer yet.

use adk::{event::Event, model::LlmResponse};
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// The key of a notice in an event's `customMetadata`.
pub const NOTICE: &str = "lango:notice";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: NoticeKind,
    /// The message: a sentence without a full stop.
    pub message: String,
    /// The model that the notice is about: the next to be called, or the one that answered. Empty if it is about
    /// none.
    pub model: String,
    /// Seconds until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Number of the next attempt, counted from 1 for the first retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeKind {
    /// The same model is called again after a wait, announced every second.
    Retry,
    /// Another model is called, or has answered.
    Fallback,
    /// The same model is called again with a shortened conversation.
    Shorter,
    /// The same model is called again without what it does not support.
    Unsupported,
    /// The output limit cut the answer off.
    Cut,
    /// Information for the user that changes nothing.
    Warning,
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind, message: impl Into<String>, model: &str) -> Self {
        Self { kind, message: message.into(), model: model.to_owned(), seconds: None, attempt: None }
    }

    /// The notice in an event's metadata.
    pub fn from_event(event: &Event) -> Option<Self> {
        let notice = event.custom_metadata.as_ref()?.get(NOTICE)?;
        serde_json::from_value(notice.clone()).ok()
    }

    pub(crate) fn metadata(&self) -> Option<Map<String, serde_json::Value>> {
        Some(Map::from_iter([(NOTICE.to_owned(), serde_json::to_value(self).ok()?)]))
    }

    /// Adds the notice to the metadata of a response.
    pub(super) fn mark(&self, mut response: LlmResponse) -> LlmResponse {
        response.custom_metadata.get_or_insert_default().extend(self.metadata().unwrap_or_default());
        response
    }

    pub(super) fn is_on(response: &LlmResponse) -> bool {
        response.custom_metadata.as_ref().is_some_and(|metadata| metadata.contains_key(NOTICE))
    }

    /// A partial response that contains only this notice.
    pub(super) fn response(&self) -> LlmResponse {
        LlmResponse { partial: true, custom_metadata: self.metadata(), ..LlmResponse::default() }
    }
}
