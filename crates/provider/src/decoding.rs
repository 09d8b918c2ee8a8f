//! Helpers that the decoders share: parsing of frames and of tool call arguments.

use crate::{Error, ToolCall, truncate::truncate_chars};
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) fn parse_frame<'a, T: Deserialize<'a>>(provider: &str, data: &'a str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|_| parse_error(provider, data))
}

/// How many characters of a frame an error quotes.
const QUOTED_CHARS: usize = 80;

/// The error for a frame that does not parse; it quotes the beginning of the frame.
pub(crate) fn parse_error(provider: &str, data: &str) -> Error {
    let message = truncate_chars(data.trim(), QUOTED_CHARS).to_owned();
    Error::Protocol { provider: provider.to_owned(), message }
}

/// Whether a frame has no content: it is blank, or it is OpenAI's `[DONE]`, which gateways add to streams of any format.
pub(crate) fn is_empty_frame(data: &str) -> bool {
    matches!(data.trim(), "" | "[DONE]")
}

/// Builds a tool call. Arguments are a JSON object or the text of one; blank text means no arguments. Anything else is kept
/// verbatim in [`ToolCall::malformed`].
pub(crate) fn tool_call(id: String, name: String, arguments: Value) -> ToolCall {
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

/// The string in a field, or an empty one if the field is absent, null or of another type.
pub(crate) fn string_or_empty(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
