//! The border to models: one neutral request, one stream of events back, and errors that say what to do.
//!
//! | read | for |
//! |---|---|
//! | [`message`] | what a model is shown |
//! | [`request`] | messages, tools and settings of one call |
//! | [`stream`] | what a model answers, piece by piece |
//! | [`error`] | what went wrong, and whether to try again |
//! | [`wire_api`] | the wire formats, and what each can do |
//! | [`openai`], [`responses`], [`anthropic`], [`gemini`], [`ollama`] | one folder per wire format: how a request looks, how an answer is read |
//! | [`http`] | bytes to frames to events; what goes wrong on the way |
//! | [`remote`] | a provider behind an address, and what it offers |
//! | [`scripted`] | a model that replays a YAML script |
//!
//! **Invariant.** Foreign words stop here: nothing outside a provider's folder knows its JSON. A tool call is emitted once,
//! whole; opaque data (signatures, reasoning items) leaves as it came, byte for byte.

pub mod anthropic;
mod classify;
mod decoding;
mod encoding;
pub mod error;
#[cfg(test)]
mod fixture;
pub mod gemini;
pub mod http;
pub mod message;
pub mod ollama;
pub mod openai;
pub mod remote;
pub mod request;
pub mod responses;
pub mod scripted;
pub mod stream;
mod tool_names;
mod tool_schema;
mod truncate;
pub mod wire_api;
mod wire_ids;

pub use error::{Error, RetryAdvice};
pub use http::SecretString;
pub use message::{Media, MediaSource, MessagePart, ModelId, ModelMessage, Role, ToolCall, ToolResult};
pub use remote::{ProviderEndpoint, RemoteProvider};
pub use request::{GenerationOptions, ModelRequest, ReasoningEffort, ToolChoice, ToolSpec};
pub use stream::{Done, FinishReason, ModelStream, StreamEvent, TokenUsage, split_words};
pub use wire_api::{StreamDecoder, StreamFrame, WireApi};

/// A way to reach models. A provider keeps no conversation: each call carries all that the model may know.
pub trait Provider: Send + Sync {
    /// As people write it before the slash of a model's name.
    fn name(&self) -> &str;

    /// Asks a model. The stream ends after [`StreamEvent::Done`] or [`StreamEvent::Error`]; dropping it cancels the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}
