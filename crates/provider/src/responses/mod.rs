//! OpenAI's Responses, without state on the server: each request carries the whole conversation as a list of items.

mod decode;
mod encode;
mod items;
mod sealed;
mod wire;

pub use decode::ResponsesDecoder;
pub use encode::{encode, unsupported_options};

pub(crate) use encode::accepts_media;
