//! Token counts of both OpenAI formats.

use crate::{TokenUsage, lenient};
use serde::Deserialize;

/// The parts of a token count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiTokenDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) reasoning_tokens: Option<u64>,
}

/// OpenAI counts reasoning as part of the output. Some servers count it separately; the total shows which.
pub(crate) fn normalize_usage(
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
    total: Option<u64>,
) -> TokenUsage {
    let counted_separately = total == Some(input + output + reasoning);
    let output = if counted_separately { output } else { output.saturating_sub(reasoning) };
    TokenUsage { input, cached, output, reasoning }
}
