//! The Anthropic Messages API.

mod answer_schema;
mod claude_generation;
mod decode;
mod encode;
mod redacted_thinking;
mod settings;
mod wire;

pub use decode::AnthropicDecoder;
pub use encode::encode;
pub use settings::unsupported_options;

pub(crate) use encode::{IDS, accepts_media, encode_around, encode_list};
