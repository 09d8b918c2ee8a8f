//! The chunks of a streamed response. Servers omit, null or reshape nearly every field, so nearly all are optional, and
//! fields with several shapes stay a [`Value`].

use super::usage::{OpenAiTokenDetails, normalize_usage};
use crate::{TokenUsage, lenient};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatChunk {
    pub(super) error: Value,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient::needed::list")]
    pub(super) choices: Option<Vec<ChatChoice>>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<ChatUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatChoice {
    #[serde(deserialize_with = "lenient::count")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) delta: Option<ChatDelta>,
    /// Some servers send the whole message in place of a delta.
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) message: Option<ChatDelta>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatDelta {
    /// Text, or an array of parts.
    #[serde(deserialize_with = "lenient::needed::text_or_parts")]
    pub(super) content: Value,
    pub(super) reasoning_content: Value,
    pub(super) reasoning: Value,
    /// OpenRouter only.
    #[serde(deserialize_with = "lenient::list")]
    pub(super) reasoning_details: Option<Vec<Value>>,
    pub(super) refusal: Value,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) annotations: Option<Vec<Value>>,
    #[serde(deserialize_with = "lenient::needed::list")]
    pub(super) tool_calls: Option<Vec<ChatToolCallDelta>>,
    /// The form of a call before `tool_calls`.
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) function_call: Option<ChatFunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatToolCallDelta {
    #[serde(deserialize_with = "lenient::count")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) function: Option<ChatFunctionDelta>,
    pub(super) extra_content: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatFunctionDelta {
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) name: Option<String>,
    /// A chunk of JSON text, or the whole object.
    pub(super) arguments: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::object")]
    prompt_tokens_details: Option<OpenAiTokenDetails>,
    #[serde(deserialize_with = "lenient::object")]
    completion_tokens_details: Option<OpenAiTokenDetails>,
    /// DeepSeek's field for cached tokens.
    #[serde(deserialize_with = "lenient::count")]
    prompt_cache_hit_tokens: Option<u64>,
}

impl ChatUsage {
    pub(super) fn normalized(&self) -> TokenUsage {
        let cached = self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        normalize_usage(
            self.prompt_tokens.unwrap_or_default(),
            cached.or(self.prompt_cache_hit_tokens).unwrap_or_default(),
            self.completion_tokens.unwrap_or_default(),
            reasoning.unwrap_or_default(),
            self.total_tokens,
        )
    }
}
