//! Tokens as OpenAI counts them, in both of its formats.

use crate::TokenUsage;
use serde::Deserialize;

/// What a count holds of special tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiTokenDetails {
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
}

/// OpenAI's output includes the reasoning. Some servers count it beside the output: there the total tells.
pub(crate) fn counted(
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
    total: Option<u64>,
) -> TokenUsage {
    let beside = total == Some(input + output + reasoning);
    let output = if beside { output } else { output.saturating_sub(reasoning) };
    TokenUsage { input, cached, output, reasoning }
}
