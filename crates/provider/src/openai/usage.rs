//! Token counts of both OpenAI formats, with the additions of other servers.

use crate::{TokenUsage, lenient};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The parts of a token count, by the names of the format.
#[expect(clippy::struct_field_names, reason = "the names are those of the format")]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiTokenDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) reasoning_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    audio_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    text_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    image_tokens: Option<u64>,
    /// OpenRouter.
    #[serde(deserialize_with = "lenient::count")]
    cache_write_tokens: Option<u64>,
    /// Alibaba.
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
}

/// Token counts under the names of both formats.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    /// Responses, whose names some servers send beside those of chat completions.
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::object")]
    prompt_tokens_details: Option<OpenAiTokenDetails>,
    #[serde(deserialize_with = "lenient::object")]
    completion_tokens_details: Option<OpenAiTokenDetails>,
    #[serde(deserialize_with = "lenient::object")]
    input_tokens_details: Option<OpenAiTokenDetails>,
    #[serde(deserialize_with = "lenient::object")]
    output_tokens_details: Option<OpenAiTokenDetails>,
    /// DeepSeek.
    #[serde(deserialize_with = "lenient::count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot.
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
    /// Gateways to Anthropic.
    #[serde(deserialize_with = "lenient::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
    /// Perplexity.
    #[serde(deserialize_with = "lenient::count")]
    reasoning_tokens: Option<u64>,
}

impl OpenAiUsage {
    /// OpenAI counts reasoning as part of the output. Some servers count it separately; the total shows which.
    pub(crate) fn normalized(&self) -> TokenUsage {
        let (prompt, completion) = (self.input_details(), self.output_details());
        let cached = prompt.and_then(|details| details.cached_tokens);
        let cached =
            cached.or(self.prompt_cache_hit_tokens).or(self.cached_tokens).or(self.cache_read_input_tokens);
        let written =
            prompt.and_then(|details| details.cache_write_tokens.or(details.cache_creation_input_tokens));
        let written = written.or(self.cache_creation_input_tokens);
        let reasoning = completion.and_then(|details| details.reasoning_tokens).or(self.reasoning_tokens);
        let count = |count: Option<u64>| count.unwrap_or_default();
        let (input, output) = (count(self.input()), count(self.output()));
        let reasoning = count(reasoning);
        let counted_separately = self.total_tokens == Some(input + output + reasoning);
        TokenUsage {
            input,
            cached: count(cached),
            output: if counted_separately { output } else { output.saturating_sub(reasoning) },
            reasoning,
            cache_written: count(written),
            cache_written_hour: 0,
        }
    }

    fn input(&self) -> Option<u64> {
        self.prompt_tokens.or(self.input_tokens)
    }

    fn output(&self) -> Option<u64> {
        self.completion_tokens.or(self.output_tokens)
    }

    fn input_details(&self) -> Option<&OpenAiTokenDetails> {
        self.prompt_tokens_details.as_ref().or(self.input_tokens_details.as_ref())
    }

    fn output_details(&self) -> Option<&OpenAiTokenDetails> {
        self.completion_tokens_details.as_ref().or(self.output_tokens_details.as_ref())
    }

    /// The counts of each kind of content, under the names of Gemini's `usageMetadata`.
    pub(crate) fn details(&self) -> Map<String, Value> {
        let sides = [
            ("promptTokensDetails", self.input_details(), self.input()),
            ("candidatesTokensDetails", self.output_details(), self.output()),
        ];
        let lists = sides.into_iter().filter_map(|(name, details, total)| {
            Some((name.to_owned(), details?.modalities(total.unwrap_or_default())?))
        });
        lists.collect()
    }
}

impl OpenAiTokenDetails {
    /// `None` if all tokens are text. Text that is not counted is what the other kinds leave.
    fn modalities(&self, total: u64) -> Option<Value> {
        let count = |count: Option<u64>| count.unwrap_or_default();
        let (audio, image) = (count(self.audio_tokens), count(self.image_tokens));
        let others = audio + image + count(self.reasoning_tokens);
        let text = self.text_tokens.unwrap_or_else(|| total.saturating_sub(others));
        let kinds = [("TEXT", text), ("AUDIO", audio), ("IMAGE", image)].into_iter();
        let counted = kinds.filter(|(_, count)| *count > 0);
        let list: Vec<Value> =
            counted.map(|(kind, count)| json!({"modality": kind, "tokenCount": count})).collect();
        (audio + image > 0).then(|| list.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn of(usage: Value) -> String {
        let usage: OpenAiUsage = serde_json::from_value(usage).unwrap();
        let TokenUsage { input, cached, output, reasoning, cache_written, .. } = usage.normalized();
        let details = Value::from(usage.details());
        format!(
            "in {input} cached {cached} written {cache_written} out {output} reasoning {reasoning} {details}"
        )
    }

    #[test]
    fn counts_of_all_vendors_have_the_same_meaning() {
        let rows = [
            json!({"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 30}, "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 10}}),
            json!({"input_tokens": 9, "output_tokens": 4, "prompt_tokens": 9, "completion_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}),
            json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 6}),
            json!({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 3}),
            json!({"prompt_tokens": 9, "completion_tokens": 4, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 5}),
            json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cache_write_tokens": 5, "image_tokens": 1, "text_tokens": 8}}),
            json!({"prompt_tokens": 9, "completion_tokens": 4, "reasoning_tokens": 7, "total_tokens": 20}),
            json!({"prompt_tokens": null, "completion_tokens_details": [], "prompt_tokens_details": "x"}),
        ];
        assert_snapshot!(rows.map(of).join("\n"), @r#"
        in 100 cached 64 written 0 out 15 reasoning 5 {"promptTokensDetails":[{"modality":"TEXT","tokenCount":70},{"modality":"AUDIO","tokenCount":30}],"candidatesTokensDetails":[{"modality":"TEXT","tokenCount":5},{"modality":"AUDIO","tokenCount":10}]}
        in 9 cached 2 written 0 out 4 reasoning 0 {}
        in 9 cached 3 written 0 out 4 reasoning 0 {}
        in 9 cached 3 written 0 out 4 reasoning 0 {}
        in 9 cached 3 written 5 out 4 reasoning 0 {}
        in 9 cached 0 written 5 out 4 reasoning 0 {"promptTokensDetails":[{"modality":"TEXT","tokenCount":8},{"modality":"IMAGE","tokenCount":1}]}
        in 9 cached 0 written 0 out 4 reasoning 7 {}
        in 0 cached 0 written 0 out 0 reasoning 0 {}
        "#);
    }
}
