//! Bytes, however they are cut, as frames that borrow from one buffer.

use super::{lines::LineBuffer, sse::SseParser};
use crate::StreamFrame;

/// How a stream is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// A JSON value in each line.
    JsonLines,
}

/// The longest frame. An image may be some megabytes; a server that never ends its line must not fill the memory.
const LONGEST: usize = 64 << 20;

/// Why a stream cannot be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    #[error("a piece of the stream is longer than {} MB", .longest >> 20)]
    TooLong { longest: usize },
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

/// Divides a stream into frames.
///
/// ```
/// # use provider::http::{Framing, Splitter};
/// let mut splitter = Splitter::new(Framing::Sse);
/// splitter.feed(b"data: one\n\nda");
/// assert_eq!(splitter.next_frame()?.map(|frame| frame.data), Some("one"));
/// assert!(splitter.next_frame()?.is_none());
/// splitter.feed(b"ta: two");
/// splitter.end();
/// assert_eq!(splitter.next_frame()?.map(|frame| frame.data), Some("two"));
/// # Ok::<(), provider::http::FramingError>(())
/// ```
#[derive(Debug)]
pub struct Splitter {
    framing: Framing,
    lines: LineBuffer,
    events: SseParser,
    longest: usize,
    too_long: bool,
}

impl Splitter {
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            lines: LineBuffer::default(),
            events: SseParser::default(),
            longest: LONGEST,
            too_long: false,
        }
    }

    /// Takes more bytes. All frames of the earlier ones have been read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.too_long |= self.lines.held() > self.longest;
        self.lines.feed(bytes);
    }

    /// No more bytes come: what is left counts as a frame.
    pub fn end(&mut self) {
        self.lines.end();
    }

    /// The next whole frame, or nothing until more is fed.
    pub fn next_frame(&mut self) -> Result<Option<StreamFrame<'_>>, FramingError> {
        if self.too_long {
            return Err(FramingError::TooLong { longest: self.longest });
        }
        match self.framing {
            Framing::Sse => self.events.next(&mut self.lines),
            Framing::JsonLines => next_line(&mut self.lines),
        }
    }
}

/// The next line that is not blank.
fn next_line(lines: &mut LineBuffer) -> Result<Option<StreamFrame<'_>>, FramingError> {
    while let Some(line) = lines.by_feed() {
        lines.release();
        if !lines.get(line.clone()).trim_ascii().is_empty() {
            return Ok(Some(StreamFrame { event: "", data: text(lines.get(line).trim_ascii())? }));
        }
    }
    Ok(None)
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, FramingError> {
    str::from_utf8(bytes).map_err(|_| FramingError::NotUtf8)
}

#[cfg(test)]
mod tests;
