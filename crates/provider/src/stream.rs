//! The events of a streamed response.

use crate::{Error, ToolCall};
use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::{Map, Value};

pub type ModelStream = BoxStream<'static, StreamEvent>;

#[derive(Debug)]
pub enum StreamEvent {
    /// The next chunk of the answer. A signature marks the end of a text part.
    TextDelta {
        text: String,
        signature: Option<String>,
    },
    /// The next chunk of reasoning. A signature marks the end of a thought.
    Thought {
        text: String,
        signature: Option<String>,
    },
    /// A tool call with complete arguments.
    ToolCall(ToolCall),
    Usage(TokenUsage),
    /// The body of the request. Not counted as progress of the answer.
    Sent(Bytes),
    /// A note for the user that does not affect the response, such as an option that the provider does not support.
    Warning(String),
    /// The response is complete. No event follows.
    Done(Done),
    /// The response failed. No event follows.
    Error(Error),
}

impl StreamEvent {
    pub fn text(text: impl Into<String>) -> Self {
        Self::TextDelta { text: text.into(), signature: None }
    }

    pub(crate) fn text_delta(text: String, signature: Option<String>) -> Self {
        Self::TextDelta { text, signature }
    }

    pub(crate) fn thought_delta(text: String, signature: Option<String>) -> Self {
        Self::Thought { text, signature }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub finish: FinishReason,
    /// The model name that the server reports.
    pub model_version: Option<String>,
    /// Boxed: most answers have none.
    pub metadata: Box<AnswerMetadata>,
}

/// What a provider reports about an answer beyond its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerMetadata {
    /// Sources and log probabilities, under the field names of Gemini's candidates, which ADK's responses share.
    pub fields: Map<String, Value>,
    /// Further token counts, such as those of audio, under the field names of Gemini's `usageMetadata`.
    pub usage: Map<String, Value>,
}

impl Done {
    pub fn new(finish: FinishReason, model_version: Option<String>) -> Self {
        Self { finish, model_version, ..Self::default() }
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    #[default]
    Stop,
    /// The output token limit was reached.
    Length,
    /// The provider's filter stopped the answer, with its own code and message.
    Filtered { code: String, message: String },
    /// The model declined to answer, or the provider rejected the prompt, with its own code and message.
    Refused { code: String, message: String },
}

/// Token counts of one call, with the same meaning for all providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub input: u64,
    pub cached: u64,
    /// Output tokens, excluding reasoning.
    pub output: u64,
    pub reasoning: u64,
    /// Input tokens that the provider wrote to its prompt cache.
    pub cache_written: u64,
    /// The part of `cache_written` that is cached for an hour.
    pub cache_written_hour: u64,
}

/// Splits a text in front of each space, into the deltas of a model that has no tokenizer. The concatenation of the
/// deltas is the text.
pub fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut spaces = rest.char_indices().skip(1).filter(|(_, c)| *c == ' ').map(|(at, _)| at);
        let end = spaces.next().unwrap_or(rest.len());
        let (word, remainder) = rest.split_at(end);
        rest = remainder;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_words_preserves_spaces_and_line_breaks() {
        for text in ["", " ", "a  b ", " lead", "line\nbreak x", "日本 語"] {
            assert_eq!(split_words(text).collect::<String>(), text);
        }
        assert_eq!(split_words("a b").collect::<Vec<_>>(), ["a", " b"]);
    }
}
