//! Splits a byte stream into frames that borrow from one buffer.

use super::{line_buffer::LineBuffer, sse::SseParser};
use crate::StreamFrame;

/// How a stream is divided into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    JsonLines,
}

/// The maximum frame size. An image takes some megabytes; a line without end must not exhaust memory.
const MAX_FRAME: usize = 64 << 20;

/// Why a stream cannot be split into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    #[error("an SSE event or a JSON line exceeds {} MB", .max >> 20)]
    TooLong { max: usize },
}

/// Splits a stream into frames.
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
    max: usize,
    too_long: bool,
    /// The current line, if it is not valid UTF-8.
    repaired: String,
}

impl Splitter {
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            lines: LineBuffer::default(),
            events: SseParser::default(),
            max: MAX_FRAME,
            too_long: false,
            repaired: String::new(),
        }
    }

    /// Appends bytes. The caller has read all frames of the previous bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.too_long |= self.lines.retained() > self.max;
        self.lines.feed(bytes);
    }

    /// Marks the end of the input: the remaining bytes are a frame.
    pub fn end(&mut self) {
        self.lines.end();
    }

    /// The next complete frame, or `None` until more bytes are fed.
    pub fn next_frame(&mut self) -> Result<Option<StreamFrame<'_>>, FramingError> {
        if self.too_long {
            return Err(FramingError::TooLong { max: self.max });
        }
        match self.framing {
            Framing::Sse => Ok(self.events.next(&mut self.lines)),
            Framing::JsonLines => Ok(next_line(&mut self.lines, &mut self.repaired)),
        }
    }
}

/// The next line that is not blank.
fn next_line<'a>(lines: &'a mut LineBuffer, repaired: &'a mut String) -> Option<StreamFrame<'a>> {
    while let Some(line) = lines.next_line_lf() {
        lines.release();
        if !lines.get(line.clone()).trim_ascii().is_empty() {
            return Some(StreamFrame { event: "", data: as_utf8(lines.get(line).trim_ascii(), repaired) });
        }
    }
    None
}

/// The text of a frame. Invalid bytes become U+FFFD: one bad byte does not fail an answer.
pub(super) fn as_utf8<'a>(bytes: &'a [u8], repaired: &'a mut String) -> &'a str {
    str::from_utf8(bytes).unwrap_or_else(|_| {
        *repaired = String::from_utf8_lossy(bytes).into_owned();
        repaired
    })
}

#[cfg(test)]
mod tests;
