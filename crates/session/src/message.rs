//! One row of the log: the seeds' columns, and `meta` for what they cannot say.

use crate::Seq;
use serde::{Deserialize, Serialize};

/// A message as it is stored. `role`, `author`, `content`, `tool_calls` and `timestamp` are enough to restore a row
/// that Lango wrote; `meta` is JSON text that the bridge alone reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Unique in its session. An append that repeats it is recognised and answered with the first one's number.
    pub id: String,
    pub role: String,
    /// Empty in rows that never had one.
    pub author: String,
    pub content: String,
    pub tool_calls: Vec<ToolCall>,
    /// Seconds since the epoch, exactly as the event had it. Never used for order.
    pub timestamp: f64,
    pub tokens: u32,
    /// How `tokens` was counted; empty means that it was not.
    pub counted_by: String,
    pub meta: Option<String>,
}

impl Message {
    /// About how many bytes this row keeps in a queue.
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

/// A row with its place in the session.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub seq: Seq,
    pub message: Message,
}

/// A call (`input` is set) or the answer to one (`output` is set), in the JSON that Lango's rows use.
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
