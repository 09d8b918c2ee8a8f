//! HTTP and streams under all wire formats: bytes come in, frames go to a decoder, events come out.
//!
//! | read | for |
//! |---|---|
//! | [`Splitter`] | bytes, however they are cut, as frames |
//! | `lines`, `sse` | the two framings |
//!
//! **Invariant.** The work is linear in the bytes: no byte is looked at twice for its line's end, whatever the pieces are.

mod lines;
mod splitter;
mod sse;

pub use splitter::{Broken, Framing, Splitter};
