//! The chunks of a response, reduced to the fields in use. Unknown fields are ignored.

use crate::lenient;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiChunk {
    #[serde(deserialize_with = "lenient::needed::list")]
    pub(super) candidates: Option<Vec<GeminiCandidate>>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) prompt_feedback: Option<GeminiPromptFeedback>,
    pub(super) usage_metadata: Value,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) model_version: Option<String>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiCandidate {
    #[serde(deserialize_with = "lenient::count")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) content: Option<GeminiContent>,
    #[serde(alias = "finish_reason", deserialize_with = "lenient::text")]
    pub(super) finish_reason: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) finish_message: Option<String>,
    pub(super) citation_metadata: Value,
    pub(super) grounding_metadata: Value,
    pub(super) avg_logprobs: Value,
    pub(super) logprobs_result: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiContent {
    #[serde(deserialize_with = "lenient::needed::list")]
    pub(super) parts: Option<Vec<GeminiPart>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiPart {
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) thought: bool,
    #[serde(alias = "thought_signature", deserialize_with = "lenient::text")]
    pub(super) thought_signature: Option<String>,
    #[serde(alias = "function_call", deserialize_with = "lenient::needed::object")]
    pub(super) function_call: Option<GeminiFunctionCall>,
    #[serde(alias = "inline_data", deserialize_with = "lenient::object")]
    pub(super) inline_data: Option<GeminiFile>,
    #[serde(alias = "file_data", deserialize_with = "lenient::object")]
    pub(super) file_data: Option<GeminiFile>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) executable_code: Option<GeminiCode>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) code_execution_result: Option<GeminiCode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiFunctionCall {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) name: Option<String>,
    pub(super) args: Option<Value>,
}

/// A file that the model produced, without its bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiFile {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) mime_type: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) display_name: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) file_uri: Option<String>,
}

/// Code that the server executed, or its output.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiCode {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) code: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) output: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiPromptFeedback {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) block_reason: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) block_reason_message: Option<String>,
}

/// Token counts. Each chunk may update some of them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiUsage {
    #[serde(rename = "promptTokenCount", deserialize_with = "lenient::count")]
    pub(super) prompt: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount", deserialize_with = "lenient::count")]
    pub(super) tools: Option<u64>,
    #[serde(rename = "cachedContentTokenCount", deserialize_with = "lenient::count")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "candidatesTokenCount", deserialize_with = "lenient::count")]
    pub(super) answer: Option<u64>,
    #[serde(rename = "thoughtsTokenCount", deserialize_with = "lenient::count")]
    pub(super) thoughts: Option<u64>,
}

impl GeminiUsage {
    pub(super) fn update(&mut self, newer: Self) {
        self.prompt = newer.prompt.or(self.prompt);
        self.tools = newer.tools.or(self.tools);
        self.cached = newer.cached.or(self.cached);
        self.answer = newer.answer.or(self.answer);
        self.thoughts = newer.thoughts.or(self.thoughts);
    }
}
