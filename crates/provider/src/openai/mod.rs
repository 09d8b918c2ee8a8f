//! OpenAI's chat completions, and the many servers that speak them.

mod decode;
mod details;
mod dialect;
mod encode;
mod strict;
mod usage;
mod wire;

pub use decode::ChatDecoder;
pub use dialect::{Dialect, ReasoningEcho};
pub use encode::{encode, encode_for, unsupported_options};

pub(crate) use encode::{accepts_media, effort};
pub(crate) use strict::strict;
pub(crate) use usage::{OpenAiTokenDetails, counted};
