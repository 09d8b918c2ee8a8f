//! The model port: one provider-neutral request, one stream of events, and errors that say whether to retry.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | messages and their parts |
//! | [`message_prefix`] | the messages that consecutive requests of a conversation share, with their encoding |
//! | [`request`] | messages, tools and options of one model call |
//! | [`stream`] | the events of a streamed response |
//! | [`omission`] | what a server does not support and a request leaves out |
//! | [`extra_body`] | fields that the configuration adds to a body |
//! | [`error`] | errors of a model call, with retry advice |
//! | [`catalogue`] | context sizes, output limits, prices and capabilities of published models |
//! | [`wire_api`] | the supported wire formats and their common operations |
//! | [`openai`], [`responses`], [`anthropic`], [`gemini`], [`ollama`] | encoder and decoder of one wire format each |
//! | [`http`] | the HTTP client, framing of streams, transport errors |
//! | [`remote`] | a provider behind a URL, its model list, discovery of local servers |
//! | [`scripted`] | a provider that replays a YAML script |
//!
//! **Invariant.** Provider-specific JSON stays inside the module of its format. A tool call is emitted once, complete.
//! Opaque data (signatures, reasoning items) is sent back byte for byte.

pub mod anthropic;
mod body_bytes;
pub mod catalogue;
mod citations;
mod classify;
mod decoding;
mod encoding;
pub mod error;
pub mod extra_body;
pub mod gemini;
pub mod http;
mod lenient;
pub mod message;
mod message_list;
pub mod message_prefix;
pub mod ollama;
pub mod omission;
pub mod openai;
pub mod remote;
pub mod request;
pub mod responses;
pub mod scripted;
pub mod stream;
#[cfg(test)]
mod test_fixture;
mod tool_names;
mod tool_schema;
mod truncate;
mod unsupported;
pub mod wire_api;
mod wire_ids;

pub use error::{Error, RetryAdvice};
pub use http::SecretString;
pub use message::{Media, MediaSource, MessagePart, ModelId, ModelMessage, Role, ToolCall, ToolResult};
pub use message_prefix::MessagePrefix;
pub use omission::{MediaKind, Omission};
pub use remote::{ProviderEndpoint, RemoteProvider};
pub use request::{GenerationOptions, ModelRequest, ReasoningEffort, ToolChoice, ToolSpec};
pub use stream::{AnswerMetadata, Done, FinishReason, ModelStream, StreamEvent, TokenUsage, split_words};
pub use wire_api::{StreamDecoder, StreamFrame, WireApi};

use bytes::Bytes;

/// Access to models. A provider holds no conversation state: each request carries everything that the model sees.
pub trait Provider: Send + Sync {
    /// The provider's part of a model name, in front of the slash.
    fn name(&self) -> &str;

    /// Starts a model call. The stream ends after [`StreamEvent::Done`] or [`StreamEvent::Error`]; dropping it cancels
    /// the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// Whether [`stream`](Provider::stream) reads [`ModelRequest::prefix`]. For any other provider, the prefix is part of the
    /// messages.
    fn reads_prefix(&self) -> bool {
        false
    }

    /// The body that [`stream`](Provider::stream) sends for this request; `None` if the provider has no wire format.
    fn encode(&self, _request: &ModelRequest) -> Option<EncodedBody> {
        None
    }
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBody {
    pub sent: Bytes,
    /// The same body with the names of variables in place of their values.
    pub shown: Bytes,
}

impl From<Bytes> for EncodedBody {
    /// A body without variables.
    fn from(sent: Bytes) -> Self {
        Self { shown: sent.clone(), sent }
    }
}
