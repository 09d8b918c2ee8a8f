//! Anthropic's Messages.

mod encode;

pub use encode::encode;
