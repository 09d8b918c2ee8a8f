//! The events of a streamed response, with their items and the final response.

use crate::{
    TokenUsage, lenient,
    openai::{OpenAiTokenDetails, normalize_usage},
};
use serde::Deserialize;
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
        #[serde(default, deserialize_with = "lenient::list")]
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
    pub(super) usage: Option<ResponsesUsage>,
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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::object")]
    input_tokens_details: Option<OpenAiTokenDetails>,
    #[serde(deserialize_with = "lenient::object")]
    output_tokens_details: Option<OpenAiTokenDetails>,
}

impl ResponsesUsage {
    pub(super) fn normalized(&self) -> TokenUsage {
        let cached = self.input_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let reasoning = self.output_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        normalize_usage(
            self.input_tokens.unwrap_or_default(),
            cached.unwrap_or_default(),
            self.output_tokens.unwrap_or_default(),
            reasoning.unwrap_or_default(),
            self.total_tokens,
        )
    }
}
