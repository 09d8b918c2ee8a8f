//! The events of a streamed response, with their items and the final response.

use crate::{lenient, openai::OpenAiUsage};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) item_id: Option<String>,
    #[serde(deserialize_with = "lenient::count")]
    pub(super) output_index: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    pub(super) content_index: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    pub(super) summary_index: Option<u64>,
    pub(super) delta: Value,
    pub(super) text: Value,
    pub(super) refusal: Value,
    pub(super) arguments: Value,
    pub(super) item: Value,
    pub(super) annotation: Value,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) response: Option<ResponsesBody>,
    pub(super) error: Value,
    pub(super) code: Value,
    pub(super) message: Value,
}

/// An output item. Servers differ in which ids they send.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponsesItem {
    Message {
        #[serde(default, deserialize_with = "lenient::text")]
        id: Option<String>,
        #[serde(default, deserialize_with = "content")]
        content: Option<Vec<ResponsesContent>>,
        #[serde(default, deserialize_with = "lenient::text")]
        phase: Option<String>,
    },
    Reasoning {
        #[serde(default, deserialize_with = "lenient::text")]
        id: Option<String>,
        #[serde(default, deserialize_with = "lenient::list")]
        summary: Option<Vec<Value>>,
        #[serde(default, deserialize_with = "lenient::list")]
        content: Option<Vec<ResponsesContent>>,
        #[serde(default, deserialize_with = "lenient::text")]
        encrypted_content: Option<String>,
    },
    FunctionCall {
        #[serde(default, deserialize_with = "lenient::text")]
        id: Option<String>,
        #[serde(default, deserialize_with = "lenient::text")]
        call_id: Option<String>,
        #[serde(default, deserialize_with = "lenient::text")]
        name: Option<String>,
        #[serde(default)]
        arguments: Value,
        #[serde(default, deserialize_with = "lenient::text")]
        status: Option<String>,
    },
    /// A call whose input is free text.
    CustomToolCall {
        #[serde(default, deserialize_with = "lenient::text")]
        id: Option<String>,
        #[serde(default, deserialize_with = "lenient::text")]
        call_id: Option<String>,
        #[serde(default, deserialize_with = "lenient::text")]
        name: Option<String>,
        #[serde(default, deserialize_with = "lenient::text")]
        input: Option<String>,
    },
    /// Any other kind of item.
    #[serde(other)]
    Other,
}

/// A list of parts, or a text.
fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ResponsesContent>>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => {
            Ok(Some(vec![ResponsesContent { text: Some(text), ..ResponsesContent::default() }]))
        }
        other => lenient::list(other).map_err(de::Error::custom),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesContent {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) refusal: Option<String>,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) annotations: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesBody {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) status: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) output: Option<Vec<Value>>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<OpenAiUsage>,
    pub(super) error: Value,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) incomplete_details: Option<ResponsesIncompleteDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesIncompleteDetails {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) reason: Option<String>,
}
