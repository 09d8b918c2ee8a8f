//! Anthropic's Messages.

mod decode;
mod encode;
mod generation;
mod redacted;
mod settings;
mod wire;

pub use decode::AnthropicDecoder;
pub use encode::encode;
pub use settings::unsupported_options;

pub(crate) use encode::accepts_media;
