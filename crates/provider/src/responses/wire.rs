//! The events of a streamed response, with their items and the final response.

use crate::{
    TokenUsage,
    openai::{OpenAiTokenDetails, normalize_usage},
};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    pub(super) item_id: Option<String>,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
    pub(super) delta: Value,
    pub(super) arguments: Value,
    pub(super) item: Value,
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
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        content: Option<Vec<ResponsesContent>>,
        #[serde(default)]
        phase: Option<String>,
    },
    Reasoning {
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        summary: Option<Vec<Value>>,
        #[serde(default)]
        content: Option<Vec<ResponsesContent>>,
        #[serde(default)]
        encrypted_content: Option<String>,
    },
    FunctionCall {
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        call_id: Option<String>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        arguments: Value,
        #[serde(default)]
        status: Option<String>,
    },
    /// Any other kind of item.
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesContent {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesBody {
    pub(super) status: Option<String>,
    pub(super) model: Option<String>,
    pub(super) output: Option<Vec<Value>>,
    pub(super) usage: Option<ResponsesUsage>,
    pub(super) error: Value,
    pub(super) incomplete_details: Option<ResponsesIncompleteDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesIncompleteDetails {
    pub(super) reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens_details: Option<OpenAiTokenDetails>,
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
