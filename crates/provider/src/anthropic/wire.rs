//! The events of a stream, as far as they matter here. Fields and events that nobody knows are passed over.

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

/// A piece of a block, or what the end of a message says.
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

/// Counts grow while a message is made; a later event may repeat some of them, or none.
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
    /// The larger of each; a gateway may send zero where it knows nothing new.
    pub(super) fn raise(&mut self, other: Self) {
        self.new = self.new.max(other.new);
        self.written = self.written.max(other.written);
        self.cached = self.cached.max(other.cached);
        self.output = self.output.max(other.output);
    }
}
