//! The events of a stream, reduced to the fields in use. Unknown fields and events are ignored.

use crate::lenient;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicEvent {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient::count")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) message: Option<AnthropicMessageStart>,
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) content_block: Option<AnthropicBlock>,
    #[serde(deserialize_with = "lenient::needed::object")]
    pub(super) delta: Option<AnthropicDelta>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<AnthropicUsage>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicMessageStart {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) usage: Option<AnthropicUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicBlock {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) thinking: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) signature: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) data: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) citations: Option<Vec<Value>>,
}

/// A message that is not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicMessage {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient::needed::list")]
    pub(super) content: Option<Vec<AnthropicBlock>>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) stop_reason: Option<String>,
}

/// A piece of JSON; an object is a whole one.
fn fragment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Object(object) if !object.is_empty() => Ok(Some(Value::Object(object).to_string())),
        other => lenient::needed::text(other).map_err(de::Error::custom),
    }
}

/// The delta of a block, or the end of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicDelta {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient::needed::text")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) thinking: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) signature: Option<String>,
    #[serde(deserialize_with = "fragment")]
    pub(super) partial_json: Option<String>,
    pub(super) citation: Value,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) stop_details: Option<AnthropicStopDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicStopDetails {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) explanation: Option<String>,
}

/// Token counts, which grow during a message. Later events may repeat some of them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicUsage {
    #[serde(rename = "input_tokens", deserialize_with = "lenient::count")]
    pub(super) new: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "lenient::count")]
    pub(super) written: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "lenient::count")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "output_tokens", deserialize_with = "lenient::count")]
    pub(super) output: Option<u64>,
    #[serde(rename = "cache_creation", deserialize_with = "lenient::object")]
    pub(super) written_by_lifetime: Option<AnthropicCacheCreation>,
    #[serde(rename = "output_tokens_details", deserialize_with = "lenient::object")]
    pub(super) output_details: Option<AnthropicOutputDetails>,
}

/// The tokens that were written to the cache, by their lifetime.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicCacheCreation {
    #[serde(rename = "ephemeral_5m_input_tokens", deserialize_with = "lenient::count")]
    pub(super) minutes: Option<u64>,
    #[serde(rename = "ephemeral_1h_input_tokens", deserialize_with = "lenient::count")]
    pub(super) hour: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicOutputDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(super) thinking_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// Keeps the larger value of each: a gateway may send zero for an unchanged count.
    pub(super) fn raise(&mut self, other: Self) {
        self.new = self.new.max(other.new);
        self.written = self.written.max(other.written);
        self.cached = self.cached.max(other.cached);
        self.output = self.output.max(other.output);
        let lifetimes = |usage: Self| usage.written_by_lifetime.unwrap_or_default();
        let (own, new) = (lifetimes(*self), lifetimes(other));
        self.written_by_lifetime = Some(AnthropicCacheCreation {
            minutes: own.minutes.max(new.minutes),
            hour: own.hour.max(new.hour),
        });
        let thinking = |usage: Self| usage.output_details.and_then(|details| details.thinking_tokens);
        let thinking_tokens = thinking(*self).max(thinking(other));
        self.output_details = Some(AnthropicOutputDetails { thinking_tokens });
    }
}
