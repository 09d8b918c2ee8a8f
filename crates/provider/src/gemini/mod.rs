//! Google's Gemini.

mod encode;

pub use encode::encode;
