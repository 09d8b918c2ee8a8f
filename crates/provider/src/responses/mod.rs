//! The OpenAI Responses API, without server-side state: each request carries the whole conversation as a list of items.

mod decode;
mod encode;
mod items;
mod opaque;
mod wire;

pub use decode::ResponsesDecoder;
pub use encode::{encode, unsupported_options};

pub(crate) use encode::{IDS, accepts_media, empty_item, encode_around, encode_list};
