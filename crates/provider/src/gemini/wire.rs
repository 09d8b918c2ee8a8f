//! The chunks of a response, reduced to the fields in use. Unknown fields are ignored.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiChunk {
    pub(super) candidates: Option<Vec<GeminiCandidate>>,
    pub(super) prompt_feedback: Option<GeminiPromptFeedback>,
    pub(super) usage_metadata: Option<GeminiUsage>,
    pub(super) model_version: Option<String>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiCandidate {
    pub(super) index: Option<u64>,
    pub(super) content: Option<GeminiContent>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GeminiContent {
    pub(super) parts: Option<Vec<GeminiPart>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart {
    pub(super) text: Option<String>,
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Option<String>,
    pub(super) function_call: Option<GeminiFunctionCall>,
    pub(super) inline_data: Option<GeminiFile>,
    pub(super) file_data: Option<GeminiFile>,
    pub(super) executable_code: Option<GeminiCode>,
    pub(super) code_execution_result: Option<GeminiCode>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GeminiFunctionCall {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) args: Option<Value>,
}

/// A file that the model produced, without its bytes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiFile {
    pub(super) mime_type: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) file_uri: Option<String>,
}

/// Code that the server executed, or its output.
#[derive(Debug, Deserialize)]
pub(super) struct GeminiCode {
    pub(super) code: Option<String>,
    pub(super) output: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPromptFeedback {
    pub(super) block_reason: Option<String>,
    pub(super) block_reason_message: Option<String>,
}

/// Token counts. Each chunk may update some of them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct GeminiUsage {
    #[serde(rename = "promptTokenCount")]
    pub(super) prompt: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    pub(super) tools: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    pub(super) answer: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
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
