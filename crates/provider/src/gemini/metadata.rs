//! The metadata of a streamed answer: sources, log probabilities and token details.

use super::wire::GeminiCandidate;
use crate::{AnswerMetadata, citations::CITATION_METADATA};
use serde_json::{Map, Value, json};

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
            if let Some(value) = usage.get(key).and_then(|value| usage_detail(key, value)) {
                self.usage.insert(key.to_owned(), value);
            }
        }
    }
}

/// The value in the form that ADK's clients accept; `None` if it has another form.
fn usage_detail(key: &str, value: &Value) -> Option<Value> {
    if key.ends_with("Count") {
        return value.as_u64().map(Value::from);
    }
    if key == "trafficType" {
        return value.as_str().map(Value::from);
    }
    let of_modality = |detail: &Value| {
        let (modality, count) = (detail.get("modality")?.as_str()?, detail.get("tokenCount")?.as_u64()?);
        Some(json!({"modality": modality, "tokenCount": count}))
    };
    let details: Vec<Value> = value.as_array()?.iter().filter_map(of_modality).collect();
    (!details.is_empty()).then(|| details.into())
}
