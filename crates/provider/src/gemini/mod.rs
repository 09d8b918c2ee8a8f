//! Google's Gemini.

mod decode;
mod encode;
mod settings;
mod wire;

pub use decode::GeminiDecoder;
pub use encode::encode;
pub use settings::unsupported;

pub(crate) use encode::takes;
