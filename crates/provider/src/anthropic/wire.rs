//! The events of a stream, reduced to the fields in use. Unknown fields and events are ignored.

use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Debug, Deserialize)]
pub(super) struct AnthropicEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: u64,
    pub(super) message: Option<AnthropicMessageStart>,
    #[serde(borrow)]
    pub(super) content_block: Option<AnthropicBlock<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<AnthropicDelta<'a>>,
    pub(super) usage: Option<AnthropicUsage>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AnthropicMessageStart {
    pub(super) model: Option<String>,
    pub(super) usage: Option<AnthropicUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AnthropicBlock<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
}

/// The delta of a block, or the end of a message.
#[derive(Debug, Deserialize)]
pub(super) struct AnthropicDelta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<AnthropicStopDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AnthropicStopDetails {
    pub(super) explanation: Option<String>,
}

/// Token counts, which grow during a message. Later events may repeat some of them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct AnthropicUsage {
    #[serde(rename = "input_tokens")]
    pub(super) new: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(super) written: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(super) output: Option<u64>,
}

impl AnthropicUsage {
    /// Keeps the larger value of each: a gateway may send zero for an unchanged count.
    pub(super) fn raise(&mut self, other: Self) {
        self.new = self.new.max(other.new);
        self.written = self.written.max(other.written);
        self.cached = self.cached.max(other.cached);
        self.output = self.output.max(other.output);
    }
}
