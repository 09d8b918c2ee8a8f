//! Helpers that the encoders share: placeholder texts, optional fields and clamped settings.

use crate::{Media, MediaSource, ToolResult};
use serde_json::{Value, json};

/// Whether a text is empty or white space only; several providers reject such text.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// A tool response as text: a string unchanged, any other value as JSON.
pub(crate) fn response_text(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            response.to_string()
        }
    }
}

/// The text for a tool result without a matching call, which no provider accepts as a result.
pub(crate) fn unmatched_result_text(result: &ToolResult) -> String {
    format!("[result of {}: {}]", result.name, response_text(&result.response))
}

/// The text in place of a file whose media type the provider does not accept.
pub(crate) fn media_placeholder(media: &Media) -> String {
    let name = media.name.as_deref().filter(|name| !is_blank(name)).unwrap_or("a file");
    let location = match &media.source {
        MediaSource::Uri(uri) => format!(" at {uri}"),
        MediaSource::Base64(_) => String::new(),
    };
    format!("[{name} ({}){location}, not shown]", media.mime_type)
}

/// The content of a required message that has no text.
pub(crate) const EMPTY_MESSAGE: &str = "(no text)";

/// The user message in front of a history that starts with the assistant.
pub(crate) const EARLIER_OMITTED: &str = "(earlier messages are left out)";

/// The user message after a history that ends with the assistant.
pub(crate) const CONTINUE: &str = "Continue.";

/// An instruction to answer with JSON of this schema, for requests in which the schema cannot be a setting.
pub(crate) fn schema_instruction(schema: &Value) -> String {
    format!("Answer with one JSON value that fits this JSON Schema, and with nothing else: {schema}")
}

/// Adds the fields that have a value to a JSON object.
pub(crate) fn with_fields(
    mut object: Value,
    fields: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Value {
    for (key, value) in fields {
        if let Some(value) = value {
            object[key] = value;
        }
    }
    object
}

/// Clamps a setting to `0..=max`: a provider rejects the whole request for one value out of range.
pub(crate) fn clamped(setting: Option<f64>, max: f64) -> Option<Value> {
    setting.filter(|number| number.is_finite()).map(|number| number.clamp(0.0, max).into())
}

/// Clamps a penalty to the range that all providers accept.
pub(crate) fn penalty(setting: Option<f64>) -> Option<Value> {
    setting.filter(|number| number.is_finite()).map(|number| number.clamp(-2.0, 2.0).into())
}

pub(crate) fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

/// Parses the version that follows the family in a model name. A name of the family without a version counts as the newest
/// one; `None` means another family.
pub(crate) fn model_version(model: &str, family: &str) -> Option<(u32, u32)> {
    let (_, rest) = model.split_once(family)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // Four or more digits are a release date.
    let mut numbers = digits.take_while(|digits| digits.len() < 4).map_while(|digits| digits.parse().ok());
    Some(numbers.next().map_or((u32::MAX, 0), |major| (major, numbers.next().unwrap_or(0))))
}
