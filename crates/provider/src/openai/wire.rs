//! The chunks of a streamed response. Servers omit, null or reshape nearly every field, so nearly all are optional, and
//! fields with several shapes stay a [`Value`].

use super::usage::OpenAiUsage;
use crate::lenient;
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
    pub(super) usage: Option<OpenAiUsage>,
    /// Groq's own fields, with the usage.
    #[serde(deserialize_with = "lenient::object")]
    pub(super) x_groq: Option<UsageHolder>,
    /// The addresses of the sources, of Perplexity and xAI.
    #[serde(deserialize_with = "lenient::list")]
    pub(super) citations: Option<Vec<Value>>,
    /// The sources, of Perplexity.
    #[serde(deserialize_with = "lenient::list")]
    pub(super) search_results: Option<Vec<Value>>,
}

/// An object with usage in it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageHolder {
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<OpenAiUsage>,
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
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) text: Option<String>,
    /// OpenRouter.
    pub(super) error: Value,
    /// Moonshot.
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<OpenAiUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatDelta {
    /// Text, or an array of parts.
    #[serde(deserialize_with = "lenient::needed::text_or_parts")]
    pub(super) content: Value,
    pub(super) reasoning_content: Value,
    pub(super) reasoning: Value,
    pub(super) thinking: Value,
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
    /// Google marks text that is reasoning.
    pub(super) extra_content: Value,
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
