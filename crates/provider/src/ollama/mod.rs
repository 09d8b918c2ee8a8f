//! Ollama's native API: one line of JSON per chunk, arguments as objects, images next to the text.

mod decode;
mod encode;
mod schema;

pub use decode::OllamaDecoder;
pub use encode::{encode, unsupported_options};

pub(crate) use encode::{IDS, accepts_media, empty_message, encode_around, encode_leading, encode_list};
