//! What the wire formats share: how a result reads, how something is named that a provider cannot be shown, and what cannot
//! be read.

use crate::{Error, Media, MediaSource, ToolResult, ids};
use serde_json::{Value, json};

/// Text that a provider would refuse or that says nothing.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// A response as text: a string as it is, anything else as JSON.
pub(crate) fn response_text(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            response.to_string()
        }
    }
}

/// A result whose call is not there is told, not lost.
pub(crate) fn loose_text(result: &ToolResult) -> String {
    format!("[result of {}: {}]", result.name, response_text(&result.response))
}

/// A file that the provider does not take, by its name.
pub(crate) fn media_text(media: &Media) -> String {
    let name = media.name.as_deref().filter(|name| !is_blank(name)).unwrap_or("a file");
    let place = match &media.source {
        MediaSource::Uri(uri) => format!(" at {uri}"),
        MediaSource::Base64(_) => String::new(),
    };
    format!("[{name} ({}){place}, not shown]", media.mime_type)
}

/// Stands where a message is needed and none has words.
pub(crate) const EMPTY: &str = "(no text)";

/// The user's side, where a history begins with the model's.
pub(crate) const EARLIER: &str = "(earlier messages are left out)";

/// The user's side, where a history ends with the model's.
pub(crate) const GO_ON: &str = "Continue.";

/// The wish for JSON, in words, for providers or settings that cannot be told otherwise.
pub(crate) fn schema_text(schema: &Value) -> String {
    format!("Answer with one JSON value that fits this JSON Schema, and with nothing else: {schema}")
}

/// The fields that are there.
pub(crate) fn with(
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

/// A setting between zero and the provider's limit; beyond it the request would be refused as a whole.
pub(crate) fn within(setting: Option<f64>, limit: f64) -> Option<Value> {
    setting.filter(|number| number.is_finite()).map(|number| number.clamp(0.0, limit).into())
}

pub(crate) fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

/// A frame without content: blank, or the word that closes streams of OpenAI and that gateways add to any.
pub(crate) fn says_nothing(data: &str) -> bool {
    matches!(data.trim(), "" | "[DONE]")
}

/// How much of a frame an error quotes.
const QUOTED: usize = 80;

/// A frame that is not what the provider should say, by its beginning.
pub(crate) fn unreadable(provider: &str, data: &str) -> Error {
    let message = ids::cut(data.trim(), QUOTED).to_owned();
    Error::Protocol { provider: provider.to_owned(), message }
}

/// The version in a model's name, after the name of its family; the newest, if there is none. `None` for other families.
pub(crate) fn version(model: &str, family: &str) -> Option<(u32, u32)> {
    let (_, rest) = model.split_once(family)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // A date is no version.
    let mut numbers = digits.take_while(|digits| digits.len() < 4).map_while(|digits| digits.parse().ok());
    Some(numbers.next().map_or((u32::MAX, 0), |major| (major, numbers.next().unwrap_or(0))))
}
