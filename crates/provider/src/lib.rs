//! The border to models: one neutral request, one stream of events back, and errors that say what to do.
//!
//! | read | for |
//! |---|---|
//! | [`message`] | what a model is shown |
//! | [`request`] | messages, tools and settings of one call |
//! | [`stream`] | what a model answers, piece by piece |
//! | [`error`] | what went wrong, and whether to try again |
//! | [`api`] | the wire formats, and what each can do |
//! | [`openai`], [`responses`], [`anthropic`], [`gemini`], [`ollama`] | one folder per wire format: how a request looks, how an answer is read |
//! | [`http`] | bytes to frames to events; what goes wrong on the way |
//! | [`remote`] | a provider behind an address, and what it offers |
//! | [`scripted`] | a model that replays a YAML script |
//!
//! **Invariant.** Foreign words stop here: nothing outside a provider's folder knows its JSON. A tool call is emitted once,
//! whole; opaque data (signatures, reasoning items) leaves as it came, byte for byte.

mod answer;
pub mod anthropic;
pub mod api;
mod classify;
pub mod error;
#[cfg(test)]
mod fixture;
pub mod gemini;
pub mod http;
mod ids;
pub mod message;
pub mod ollama;
pub mod openai;
mod parts;
pub mod remote;
pub mod request;
pub mod responses;
mod schema;
pub mod scripted;
pub mod stream;

pub use api::{Api, Decoder, Frame};
pub use error::{Error, Retry};
pub use http::Secret;
pub use message::{Media, MediaSource, Message, Origin, Part, Role, ToolCall, ToolResult};
pub use remote::{Endpoint, Remote};
pub use request::{Effort, Options, Request, ToolChoice, ToolSpec};
pub use stream::{Done, EventStream, Finish, StreamEvent, Usage, split_words};

/// A way to reach models. A provider keeps no conversation: each call carries all that the model may know.
pub trait Provider: Send + Sync {
    /// As people write it before the slash of a model's name.
    fn name(&self) -> &str;

    /// Asks a model. The stream ends after [`StreamEvent::Done`] or [`StreamEvent::Error`]; dropping it cancels the call.
    fn stream(&self, request: Request) -> EventStream;
}
