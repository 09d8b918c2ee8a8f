//! What the decoders share: how a frame is read, and how a call is made of what a model wrote.

use crate::{Error, ToolCall, parts};
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) fn parse<'a, T: Deserialize<'a>>(provider: &str, data: &'a str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|_| parts::unreadable(provider, data))
}

/// Arguments are an object, as JSON or as its text; no text at all is an object without members. Anything else is kept
/// as the model wrote it.
pub(crate) fn call(id: String, name: String, arguments: Value) -> ToolCall {
    let (args, malformed) = match arguments {
        Value::Object(args) => (args, None),
        Value::Null => (Map::new(), None),
        Value::String(text) => {
            match serde_json::from_str(if text.trim().is_empty() { "{}" } else { &text }) {
                Ok(args) => (args, None),
                Err(_) => (Map::new(), Some(text)),
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => (Map::new(), Some(arguments.to_string())),
    };
    ToolCall { id, name, args, signature: None, malformed }
}

/// The text in a field that may be absent, null or of another kind.
pub(crate) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
