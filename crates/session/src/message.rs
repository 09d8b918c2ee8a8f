//! A row of the log. The columns are those of Lango in Go; `meta` holds everything else.

use crate::Seq;
use serde::{Deserialize, Serialize};

/// A message as it is stored. Rows of Lango in Go have no `meta`, and are restored from the other columns. `meta` is opaque
/// JSON text of the caller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMessage {
    /// Unique in the session. A commit that repeats the id is recognised as a retry and returns the first sequence number.
    pub id: String,
    pub role: String,
    /// Empty in imported rows without author.
    pub author: String,
    pub content: String,
    pub tool_calls: Vec<ToolCall>,
    /// Seconds since the Unix epoch, as in the event. Never used for ordering.
    pub timestamp: f64,
    pub tokens: u32,
    /// The token counter that counted `tokens`. Empty if they were not counted.
    pub counted_by: String,
    pub meta: Option<String>,
}

impl SessionMessage {
    /// The approximate size in bytes.
    pub fn size(&self) -> usize {
        let calls: usize = self.tool_calls.iter().map(ToolCall::size).sum();
        self.id.len()
            + self.role.len()
            + self.author.len()
            + self.content.len()
            + calls
            + self.meta.as_ref().map_or(0, String::len)
    }
}

/// A message with its sequence number.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    pub seq: Seq,
    pub message: SessionMessage,
}

/// A tool call (`input` is set) or its result (`output` is set), in the JSON format of Lango in Go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thought: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
}

impl ToolCall {
    pub fn is_call(&self) -> bool {
        !self.input.is_empty()
    }

    pub fn is_response(&self) -> bool {
        !self.output.is_empty()
    }

    fn size(&self) -> usize {
        let signature = self.thought_signature.as_ref().map_or(0, String::len);
        self.id.len() + self.name.len() + self.input.len() + self.output.len() + signature
    }
}
