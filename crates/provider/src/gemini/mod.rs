//! The Google Gemini API.

mod decode;
mod encode;
mod metadata;
mod settings;
mod wire;

pub use decode::GeminiDecoder;
pub use encode::encode;
pub use settings::unsupported_options;

pub(crate) use encode::{IDS, accepts_media, encode_around, encode_list, requires_call_signature};
