//! Word of what goes on while there is no answer yet, for whoever looks on.

use adk::{event::Event, model::LlmResponse};
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// Where an event carries a notice, in its `customMetadata`.
pub const NOTICE: &str = "lango:notice";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: NoticeKind,
    /// What has happened, as a sentence without its full stop.
    pub message: String,
    /// The model that it is about: the one that is asked next, or that answered. Empty if it is about none.
    pub model: String,
    /// How long it is until the model is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// How often it will have been asked again by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeKind {
    /// The same model is asked again, after a wait that is told second by second.
    Retry,
    /// Another model is asked, or has answered.
    Fallback,
    /// The same model is asked again with less of the conversation.
    Shorter,
    /// Something that the user should know and that changes nothing.
    Warning,
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind, message: impl Into<String>, model: &str) -> Self {
        Self { kind, message: message.into(), model: model.to_owned(), seconds: None, attempt: None }
    }

    /// The notice that an event carries.
    pub fn of(event: &Event) -> Option<Self> {
        let notice = event.custom_metadata.as_ref()?.get(NOTICE)?;
        serde_json::from_value(notice.clone()).ok()
    }

    pub(crate) fn metadata(&self) -> Option<Map<String, serde_json::Value>> {
        Some(Map::from_iter([(NOTICE.to_owned(), serde_json::to_value(self).ok()?)]))
    }

    /// A response that says this and nothing else.
    pub(super) fn response(&self) -> LlmResponse {
        LlmResponse { partial: true, custom_metadata: self.metadata(), ..LlmResponse::default() }
    }
}
