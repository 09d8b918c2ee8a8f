//! OpenAI's chat completions, and the many servers that speak them.

mod encode;

pub use encode::encode;
