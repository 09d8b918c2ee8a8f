//! The wire formats by name, and what every one of them can do: make a body of a request, and read the answer frame by frame.
//!
//! All of it is pure; sending and receiving bytes is not its business.

use crate::{Error, Request, StreamEvent, anthropic, gemini, openai};
use serde_json::Value;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's chat completions, and the many servers that speak them.
    Chat,
    Anthropic,
    Gemini,
}

impl Api {
    /// The body of a request whose answer comes as a stream.
    pub fn encode(self, request: &Request) -> Value {
        match self {
            Self::Chat => openai::encode(request, true),
            Self::Anthropic => anthropic::encode(request, true),
            Self::Gemini => gemini::encode(request, true),
        }
    }
}

/// One piece of a stream: a server-sent event, or a line of JSON, which has no name.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub event: &'a str,
    pub data: &'a str,
}

/// Reads one answer. Text and thoughts leave at once; calls wait until the answer is complete, since a stream can fail
/// after a call in it is whole.
pub trait Decoder: Send {
    /// Takes the next frame. After [`StreamEvent::Done`] or an error nothing more is read.
    fn read(&mut self, frame: Frame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// The body has ended without [`StreamEvent::Done`]. A server that said why it stopped has finished; any other answer
    /// is cut off.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error>;
}
