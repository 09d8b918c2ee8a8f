//! Ollama's own format: one line of JSON per piece, arguments as objects, images beside the text.

mod decode;
mod encode;
mod schema;

pub use decode::OllamaDecoder;
pub use encode::{encode, unsupported_options};

pub(crate) use encode::accepts_media;
