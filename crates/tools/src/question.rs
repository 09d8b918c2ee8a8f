//! Questions that a running call asks the user. The call returns the question, and is repeated with the answer.

use serde_json::{Map, Value};

/// A question for values.
#[derive(Debug, Clone, PartialEq)]
pub struct InputQuestion {
    /// Names who asks, and quotes its words.
    pub message: String,
    /// The JSON Schema of the answer, of type `object` with primitive fields.
    pub schema: Value,
    /// The MCP server that asks.
    pub server: String,
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum InputReply {
    /// The values match the schema of the question.
    Accept(Map<String, Value>),
    Decline,
    /// The question was dismissed, or it was not answered in time.
    Cancel,
}
