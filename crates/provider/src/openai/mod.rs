//! OpenAI Chat Completions, which many other servers implement.

mod decode;
mod dialect;
mod encode;
mod reasoning_details;
mod strict_schema;
mod usage;
mod wire;

pub use decode::ChatDecoder;
pub use dialect::{Dialect, ReasoningEcho};
pub use encode::{encode, encode_for, unsupported_options};

pub(crate) use encode::{
    IDS, accepts_media, effort_level, empty_message, encode_around, encode_leading, encode_list,
};
pub(crate) use strict_schema::strict_schema;
pub(crate) use usage::OpenAiUsage;
