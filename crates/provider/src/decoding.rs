//! Helpers that the decoders share: parsing of frames and of tool call arguments.

use crate::{Error, StreamFrame, ToolCall, classify, truncate::truncate_chars};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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

/// The error of an event that is named `error`. Some servers send the error object without the object around it.
pub(crate) fn named_error(provider: &str, frame: StreamFrame<'_>) -> Option<Error> {
    if frame.event != "error" {
        return None;
    }
    let value: Value = serde_json::from_str(frame.data).unwrap_or_else(|_| frame.data.trim().into());
    classify::error_in_json(provider, None, &value)
        .or_else(|| classify::error_in_json(provider, None, &json!({"error": value})))
}

/// Refuses a frame that is no JSON object. A list with an error in it is that error.
pub(crate) fn expect_object(provider: &str, data: &str) -> Result<(), Error> {
    if data.trim_start().starts_with('{') {
        return Ok(());
    }
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let error = value.get(0).and_then(|_| classify::error_in_json(provider, None, &value));
    Err(error.unwrap_or_else(|| parse_error(provider, data)))
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
        Value::String(text) => match parse_object(if text.trim().is_empty() { "{}" } else { &text }) {
            Some(args) => (args, None),
            None => (Map::new(), Some(text)),
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => (Map::new(), Some(arguments.to_string())),
    };
    ToolCall { id, name, args, signature: None, malformed }
}

/// The JSON object of a text. Some servers encode it twice.
fn parse_object(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text).ok()? {
        Value::Object(object) => Some(object),
        Value::String(inner) => serde_json::from_str(&inner).ok(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The string or the digits in a field, or an empty string if the field is absent, null or of another type.
pub(crate) fn string_or_empty(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
