//! What a model is shown: messages in order, each a list of parts in order.

use serde_json::{Map, Value};
use text::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    System,
    User,
    Assistant,
    /// Answers to the calls of the assistant's message before.
    Tool,
}

/// Who made a message: opaque data goes back to the very model that made it, and to no other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub provider: String,
    pub model: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

impl Message {
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts }
    }

    pub fn text(role: Role, text: impl Into<Text>) -> Self {
        Self::new(role, vec![Part::text(text)])
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&**call),
            Part::Text { .. } | Part::Thought { .. } | Part::Result(_) | Part::Media(_) => None,
        })
    }

    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(&**result),
            Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Media(_) => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text {
        text: Text,
        signature: Option<String>,
        /// Whether the program wrote the text in the user's place. Every provider sends it like any other text.
        note: bool,
    },
    /// Reasoning. A signature without text is reasoning that the provider keeps secret.
    Thought {
        text: Text,
        signature: Option<String>,
    },
    /// Most parts are texts: what is larger lies elsewhere, so that a history of texts is small.
    Call(Box<ToolCall>),
    Result(Box<ToolResult>),
    Media(Box<Media>),
}

impl Part {
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text { text: text.into(), signature: None, note: false }
    }

    /// A text that the program writes in the user's place.
    pub fn note(text: impl Into<Text>) -> Self {
        Self::Text { text: text.into(), signature: None, note: true }
    }
}

impl From<ToolCall> for Part {
    fn from(call: ToolCall) -> Self {
        Self::Call(Box::new(call))
    }
}

impl From<ToolResult> for Part {
    fn from(result: ToolResult) -> Self {
        Self::Result(Box::new(result))
    }
}

impl From<Media> for Part {
    fn from(media: Media) -> Self {
        Self::Media(Box::new(media))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Empty in a stream where the provider gave none.
    pub id: String,
    pub name: String,
    pub args: Map<String, Value>,
    pub signature: Option<String>,
    /// What the model wrote, where it is not a JSON object; `args` are empty then, and the tool must not run.
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
    /// Standard base64.
    Base64(String),
    Uri(String),
}
