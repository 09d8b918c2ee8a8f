//! HTTP and streams under all wire formats: bytes come in, frames go to a decoder, events come out.
//!
//! | read | for |
//! |---|---|
//! | [`Splitter`], `lines`, `sse` | bytes, however they are cut, as frames |
//! | `client` | proxies, certificates, timeouts |
//! | `call`, `body` | one call from its request to the last of its events |
//! | `fetch` | an answer in one piece |
//! | [`JsonPostClient`] | JSON for which nobody waits |
//! | `trouble` | what goes wrong on the way, as errors |
//! | [`SecretString`] | what is sent and never shown |
//!
//! **Invariant.** The work is linear in the bytes: no byte is looked at twice for its line's end, whatever the pieces are.
//! No error shows a secret, even if the server repeats it.

mod body;
mod call;
mod client;
#[cfg(test)]
pub(crate) mod fake;
mod fetch;
mod lines;
mod post;
mod secret;
mod splitter;
mod sse;
mod trouble;

pub(crate) use call::StreamingCall;
pub(crate) use client::certificates;
pub use client::{build_client, is_loopback};
pub(crate) use fetch::fetch;
pub use post::JsonPostClient;
pub use secret::SecretString;
pub use splitter::{Framing, FramingError, Splitter};
pub use trouble::root_cause;
