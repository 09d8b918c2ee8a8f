//! The supported wire formats, and the operations that all of them have: encode a request, decode a stream frame by
//! frame.
//!
//! Everything here is pure; [`crate::http`] does the I/O. `docs/src/how-to/add-a-provider.md` shows how to add a provider or
//! a wire format.

use crate::{
    Error, Media, ModelRequest, StreamEvent, anthropic,
    body_bytes::{self, BodyFrame},
    extra_body, gemini,
    http::Framing,
    ollama, omission,
    openai::{self, Dialect},
    responses,
};
use serde_json::{Map, Value};

/// The wire format of a provider's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireApi {
    /// OpenAI Chat Completions, which many other servers implement.
    Chat,
    /// The OpenAI Responses API.
    Responses,
    /// The Anthropic Messages API.
    Anthropic,
    Gemini,
    /// Ollama's native API. Ollama also implements Chat Completions.
    Ollama,
}

impl WireApi {
    /// The URL of the vendor that defined the format.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// Encodes the body of a streaming request for the server at `base_url`. Variables in extra fields are not replaced.
    pub fn encode(self, base_url: &str, request: &ModelRequest) -> Value {
        self.encode_with(base_url, request, &request.extra_body)
    }

    /// Like [`encode`](Self::encode), with these extra fields.
    pub(crate) fn encode_with(
        self,
        base_url: &str,
        request: &ModelRequest,
        extra: &Map<String, Value>,
    ) -> Value {
        let request = &*request.with_all_messages();
        let request = &*omission::omit_from_request(self, request);
        let mut body = match self {
            Self::Chat => openai::encode_for(request, true, &Dialect::for_base_url(base_url)),
            Self::Responses => responses::encode(request, true),
            Self::Anthropic => anthropic::encode(request, true),
            Self::Gemini => gemini::encode(request, true),
            Self::Ollama => ollama::encode(request, true),
        };
        extra_body::merge(self, extra, &mut body);
        omission::omit_from_body(self, &request.omitted, &mut body);
        body
    }

    /// As [`encode`](Self::encode), as bytes. What the prefix of the request has encoded is copied.
    pub fn encode_to_bytes(self, base_url: &str, request: &ModelRequest) -> Vec<u8> {
        self.encode_to_bytes_with(base_url, request, &request.extra_body)
    }

    /// Like [`encode_to_bytes`](Self::encode_to_bytes), with these extra fields.
    pub(crate) fn encode_to_bytes_with(
        self,
        base_url: &str,
        request: &ModelRequest,
        extra: &Map<String, Value>,
    ) -> Vec<u8> {
        // A field may be left out of messages, too.
        if !request.omitted.is_empty() {
            return self.encode_with(base_url, request, extra).to_string().into_bytes();
        }
        let frame = BodyFrame { api: self, base_url, extra };
        let prefix = request.prefix.as_ref();
        prefix
            .and_then(|prefix| body_bytes::continued(frame, request, prefix))
            .unwrap_or_else(|| body_bytes::whole(frame, request))
    }

    /// Whether the server at this URL is known to have `prompt_cache_key`. Many servers with OpenAI's formats reject unknown fields.
    pub fn has_prompt_cache_key(self, base_url: &str) -> bool {
        match self {
            Self::Chat | Self::Responses => Dialect::for_base_url(base_url).prompt_cache_key,
            Self::Anthropic | Self::Gemini | Self::Ollama => false,
        }
    }

    /// The options of a request that the format or the model does not support.
    pub fn unsupported_options(self, request: &ModelRequest) -> Vec<&'static str> {
        match self {
            Self::Chat => openai::unsupported_options(&request.options),
            Self::Responses => responses::unsupported_options(&request.options),
            Self::Anthropic => anthropic::unsupported_options(request),
            Self::Gemini => gemini::unsupported_options(request),
            Self::Ollama => ollama::unsupported_options(&request.options),
        }
    }

    /// Returns a decoder for the response to `request`. Errors name the server `provider`.
    pub fn decoder(self, provider: &str, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        match self {
            Self::Chat => Box::new(openai::ChatDecoder::new(provider, request)),
            Self::Responses => Box::new(responses::ResponsesDecoder::new(provider, request)),
            Self::Anthropic => Box::new(anthropic::AnthropicDecoder::new(provider, request)),
            Self::Gemini => Box::new(gemini::GeminiDecoder::new(provider, request)),
            Self::Ollama => Box::new(ollama::OllamaDecoder::new(provider, request)),
        }
    }

    /// Whether the format can transmit this file. Of any other file the model sees only the name.
    pub fn accepts_media(self, media: &Media) -> bool {
        match self {
            Self::Chat => openai::accepts_media(media),
            Self::Responses => responses::accepts_media(media),
            Self::Anthropic => anthropic::accepts_media(media),
            Self::Gemini => gemini::accepts_media(media),
            Self::Ollama => ollama::accepts_media(media),
        }
    }

    pub fn framing(self) -> Framing {
        match self {
            Self::Chat | Self::Responses | Self::Anthropic | Self::Gemini => Framing::Sse,
            Self::Ollama => Framing::JsonLines,
        }
    }
}

/// One frame of a stream: a server-sent event, or a line of JSON, whose `event` is empty.
#[derive(Clone, Copy, Debug)]
pub struct StreamFrame<'a> {
    pub event: &'a str,
    pub data: &'a str,
}

/// Decodes one response. Text and thoughts are emitted at once. Tool calls are held back until the response is
/// complete, because a stream can fail after a complete call.
pub trait StreamDecoder: Send {
    /// Decodes the next frame. The caller passes no frame after [`StreamEvent::Done`] or an error.
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// Handles the end of a body without [`StreamEvent::Done`]. The response is complete if the server sent a finish
    /// reason, and truncated otherwise.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error>;
}
