//! Arguments become types at the door, and a misfit is told in the words of the schema.

use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value};

use crate::Error;

/// Reads the arguments of a call of `tool`.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, args: Map<String, Value>) -> Result<T, Error> {
    serde_json::from_value(Value::Object(args))
        .map_err(|error| Error::Arguments { tool: tool.to_owned(), reason: error.to_string() })
}

/// An optional count. `3.0` is an integer to JSON Schema, and some models write it so.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(from)? else { return Ok(None) };
    let printed = number.to_string();
    let digits = printed.strip_suffix(".0").unwrap_or(&printed);
    digits
        .parse()
        .map(Some)
        .map_err(|_| D::Error::custom(format!("`{number}` is not a whole number from 0 on")))
}
