//! The metadata of a streamed answer: sources, log probabilities and token details.

use super::wire::GeminiCandidate;
use crate::{AnswerMetadata, citations::CITATION_METADATA};
use serde_json::{Map, Value};

/// The counts of `usageMetadata` beyond the totals.
const USAGE_DETAILS: [&str; 6] = [
    "promptTokensDetails",
    "cacheTokensDetails",
    "candidatesTokensDetails",
    "toolUsePromptTokensDetails",
    "toolUsePromptTokenCount",
    "trafficType",
];

#[derive(Debug, Default)]
pub(super) struct GeminiMetadata {
    candidate: Map<String, Value>,
    usage: Map<String, Value>,
}

impl GeminiMetadata {
    pub(super) fn into_answer(self) -> AnswerMetadata {
        AnswerMetadata { fields: self.candidate, usage: self.usage }
    }

    /// Keeps the newest value of each field: a later chunk repeats or completes it.
    pub(super) fn read_candidate(&mut self, candidate: &mut GeminiCandidate) {
        let mut citations = candidate.citation_metadata.take();
        // The Gemini API and Vertex AI name the list differently; ADK has the name of Vertex AI.
        if let Some(fields) = citations.as_object_mut()
            && let Some(sources) = fields.shift_remove("citationSources")
        {
            fields.insert("citations".to_owned(), sources);
        }
        self.set(CITATION_METADATA, citations, Value::is_object);
        self.set("groundingMetadata", candidate.grounding_metadata.take(), Value::is_object);
        self.set("avgLogprobs", candidate.avg_logprobs.take(), Value::is_number);
        self.set("logprobsResult", candidate.logprobs_result.take(), Value::is_object);
    }

    fn set(&mut self, key: &str, value: Value, is_expected: fn(&Value) -> bool) {
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        if is_expected(&value) && !is_empty {
            self.candidate.insert(key.to_owned(), value);
        }
    }

    pub(super) fn read_usage(&mut self, usage: &Value) {
        for key in USAGE_DETAILS {
            if let Some(value) = usage.get(key).filter(|value| !value.is_null()) {
                self.usage.insert(key.to_owned(), value.clone());
            }
        }
    }
}
