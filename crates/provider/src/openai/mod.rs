//! OpenAI's chat completions, and the many servers that speak them.

mod decode;
mod details;
mod dialect;
mod encode;
mod strict;
mod usage;
mod wire;

pub use decode::ChatDecoder;
pub use dialect::{Dialect, Echo};
pub use encode::{encode, encode_for, unsupported};

pub(crate) use encode::{effort, takes};
pub(crate) use strict::strict;
pub(crate) use usage::{OpenAiTokenDetails, counted};
