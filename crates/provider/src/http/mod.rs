//! HTTP transport for all wire formats: it turns response bytes into frames, and frames into events through a decoder.
//!
//! | module | contents |
//! |---|---|
//! | [`Splitter`], `line_buffer`, `sse` | framing of a byte stream |
//! | `surrogates` | escapes that a server splits over two frames |
//! | `client` | proxies, certificates, timeouts |
//! | `call`, `body` | one streaming call, from the request to its last event |
//! | `inflate` | bodies that are compressed |
//! | `fetch` | requests that return one JSON document |
//! | [`JsonPostClient`] | POST of JSON without reading the response |
//! | `transport_error` | transport failures and error responses as [`crate::Error`] |
//! | [`SecretString`] | values that are sent and never printed |
//!
//! **Invariant.** Framing is linear in the number of bytes, however they are split. No error message contains a secret,
//! even if the server echoes it.

mod body;
mod call;
mod client;
#[cfg(test)]
pub(crate) mod fake_server;
mod fetch;
mod inflate;
mod json_post;
mod line_buffer;
mod secret;
mod splitter;
mod sse;
mod surrogates;
mod transport_error;

pub(crate) use call::StreamingCall;
pub(crate) use client::read_certificates;
pub use client::{build_client, is_loopback};
pub(crate) use fetch::fetch_json;
pub use json_post::JsonPostClient;
pub use secret::SecretString;
pub(crate) use secret::mask;
pub use splitter::{Framing, FramingError, Splitter};
pub use transport_error::root_cause;
