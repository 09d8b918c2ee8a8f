//! The wire formats by name, and what every one of them can do: make a body of a request, and read the answer frame by frame.
//!
//! All of it is pure; sending and receiving bytes is the business of [`crate::http`].

use crate::{
    Error, Media, ModelRequest, StreamEvent, anthropic, gemini,
    http::Framing,
    ollama,
    openai::{self, Dialect},
    responses,
};
use serde_json::Value;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireApi {
    /// OpenAI's chat completions, and the many servers that speak them.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    Gemini,
    /// Ollama's own format; it speaks chat completions too.
    Ollama,
}

impl WireApi {
    /// The address of whoever made the format.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// The body of a request whose answer comes as a stream, for the server at this address.
    pub fn encode(self, base_url: &str, request: &ModelRequest) -> Value {
        match self {
            Self::Chat => openai::encode_for(request, true, &Dialect::for_base_url(base_url)),
            Self::Responses => responses::encode(request, true),
            Self::Anthropic => anthropic::encode(request, true),
            Self::Gemini => gemini::encode(request, true),
            Self::Ollama => ollama::encode(request, true),
        }
    }

    /// The settings of a request that have no place in its body.
    pub fn unsupported_options(self, request: &ModelRequest) -> Vec<&'static str> {
        match self {
            Self::Chat => openai::unsupported_options(&request.options),
            Self::Responses => responses::unsupported_options(&request.options),
            Self::Anthropic => anthropic::unsupported_options(request),
            Self::Gemini => gemini::unsupported_options(request),
            Self::Ollama => ollama::unsupported_options(&request.options),
        }
    }

    /// Reads the answer to this request. Errors call the server `provider`.
    pub fn decoder(self, provider: &str, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        match self {
            Self::Chat => Box::new(openai::ChatDecoder::new(provider, request)),
            Self::Responses => Box::new(responses::ResponsesDecoder::new(provider, request)),
            Self::Anthropic => Box::new(anthropic::AnthropicDecoder::new(provider, request)),
            Self::Gemini => Box::new(gemini::GeminiDecoder::new(provider, request)),
            Self::Ollama => Box::new(ollama::OllamaDecoder::new(provider, request)),
        }
    }

    /// Whether a model is shown such a file; it is told the name of any other.
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

/// One piece of a stream: a server-sent event, or a line of JSON, which has no name.
#[derive(Clone, Copy, Debug)]
pub struct StreamFrame<'a> {
    pub event: &'a str,
    pub data: &'a str,
}

/// Reads one answer. Text and thoughts leave at once; calls wait until the answer is complete, since a stream can fail
/// after a call in it is whole.
pub trait StreamDecoder: Send {
    /// Takes the next frame. After [`StreamEvent::Done`] or an error nothing more is read.
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// The body has ended without [`StreamEvent::Done`]. A server that said why it stopped has finished; any other answer
    /// is cut off.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error>;
}
