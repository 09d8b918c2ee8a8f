//! Deserialization of call arguments, with errors that name the tool and the field.

use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value};

use crate::ToolsError;

/// Deserializes the arguments of a call of `tool`.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, args: Map<String, Value>) -> Result<T, ToolsError> {
    serde_json::from_value(Value::Object(args))
        .map_err(|error| ToolsError::Arguments { tool: tool.to_owned(), reason: error.to_string() })
}

/// Deserializes an optional non-negative integer. JSON Schema counts `3.0` as an integer, and some models send `3.0`.
pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let printed = number.to_string();
    let digits = printed.strip_suffix(".0").unwrap_or(&printed);
    digits
        .parse()
        .map(Some)
        .map_err(|_| D::Error::custom(format!("`{number}` is not an integer of 0 or more")))
}
