//! OpenAI's Responses, without state on the server: each request carries the whole conversation as a list of items.

mod decode;
mod encode;
mod items;
mod sealed;
mod wire;

pub use decode::ResponsesDecoder;
pub use encode::{encode, unsupported};

pub(crate) use encode::takes;
