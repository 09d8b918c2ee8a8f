//! What a model answers, piece by piece.

use crate::{Error, ToolCall};
use futures::stream::BoxStream;

pub type ModelStream = BoxStream<'static, StreamEvent>;

#[derive(Debug)]
pub enum StreamEvent {
    /// The next piece of the answer. A signature belongs to the text part that ends here.
    TextDelta {
        text: String,
        signature: Option<String>,
    },
    /// The next piece of the model's reasoning. A signature ends the thought.
    Thought {
        text: String,
        signature: Option<String>,
    },
    /// A call whose arguments are whole.
    ToolCall(ToolCall),
    Usage(TokenUsage),
    /// Something that the user should know and that changes nothing: a setting that the provider does not have.
    Warning(String),
    /// The answer is complete. Nothing follows.
    Done(Done),
    /// The answer failed. Nothing follows.
    Error(Error),
}

impl StreamEvent {
    pub fn text(text: impl Into<String>) -> Self {
        Self::TextDelta { text: text.into(), signature: None }
    }

    pub(crate) fn text_piece(text: String, signature: Option<String>) -> Self {
        Self::TextDelta { text, signature }
    }

    pub(crate) fn thought_piece(text: String, signature: Option<String>) -> Self {
        Self::Thought { text, signature }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub finish: FinishReason,
    /// The model's name as the server gives it.
    pub model_version: Option<String>,
}

/// Why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    #[default]
    Stop,
    /// The limit of output tokens.
    Length,
    /// The provider declined to answer, with its own code and words.
    Refused { code: String, message: String },
}

/// Tokens of one call, counted alike for all providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// All that went in, cached tokens included.
    pub input: u64,
    pub cached: u64,
    /// All that came out, reasoning excluded.
    pub output: u64,
    pub reasoning: u64,
}

/// Splits a text before each space: the deltas in which a model without a tokenizer streams it. Joined, they are the text.
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
