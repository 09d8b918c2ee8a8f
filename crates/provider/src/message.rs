//! Messages of a conversation: an ordered list, each message an ordered list of parts.

use serde_json::{Map, Value};
use shared_text::SharedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    System,
    User,
    Assistant,
    /// Results of the calls in the preceding assistant message.
    Tool,
}

/// A model of a provider. Opaque data in a message goes back only to the model that produced it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelId {
    pub provider: String,
    pub model: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelMessage {
    pub role: Role,
    pub parts: Vec<MessagePart>,
}

impl ModelMessage {
    pub fn new(role: Role, parts: Vec<MessagePart>) -> Self {
        Self { role, parts }
    }

    pub fn text(role: Role, text: impl Into<SharedText>) -> Self {
        Self::new(role, vec![MessagePart::text(text)])
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Call(call) => Some(&**call),
            MessagePart::Text { .. }
            | MessagePart::Thought { .. }
            | MessagePart::Result(_)
            | MessagePart::Media(_) => None,
        })
    }

    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Result(result) => Some(&**result),
            MessagePart::Text { .. }
            | MessagePart::Thought { .. }
            | MessagePart::Call(_)
            | MessagePart::Media(_) => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum MessagePart {
    Text {
        text: SharedText,
        signature: Option<String>,
        /// Whether the program wrote the text in the user's place. Every provider sends it like any other text.
        note: bool,
    },
    /// Reasoning. A signature without text is reasoning that the provider encrypts.
    Thought {
        text: SharedText,
        signature: Option<String>,
    },
    /// Boxed: most parts are text, and an unboxed call would make every part larger.
    Call(Box<ToolCall>),
    Result(Box<ToolResult>),
    Media(Box<Media>),
}

impl MessagePart {
    pub fn text(text: impl Into<SharedText>) -> Self {
        Self::Text { text: text.into(), signature: None, note: false }
    }

    /// A text that the program writes in the user's place.
    pub fn note(text: impl Into<SharedText>) -> Self {
        Self::Text { text: text.into(), signature: None, note: true }
    }
}

impl From<ToolCall> for MessagePart {
    fn from(call: ToolCall) -> Self {
        Self::Call(Box::new(call))
    }
}

impl From<ToolResult> for MessagePart {
    fn from(result: ToolResult) -> Self {
        Self::Result(Box::new(result))
    }
}

impl From<Media> for MessagePart {
    fn from(media: Media) -> Self {
        Self::Media(Box::new(media))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Empty if the provider sent no id.
    pub id: String,
    pub name: String,
    pub args: Map<String, Value>,
    pub signature: Option<String>,
    /// The raw arguments if they are not a JSON object. `args` is empty then, and the tool must not run.
    pub malformed: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub id: String,
    pub name: String,
    pub response: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    pub mime_type: String,
    pub source: MediaSource,
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MediaSource {
    /// Standard base64, with padding.
    Base64(String),
    Uri(String),
}
