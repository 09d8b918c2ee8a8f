//! The SSE parser for streams of providers (server-sent events): one field per line, one event per blank line.

use super::{line_buffer::LineBuffer, splitter::as_utf8};
use crate::StreamFrame;
use std::ops::Range;

/// The fields of the current event. Ranges are relative to the start of the event, because the buffer moves.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    name: Option<Range<usize>>,
    data: Option<SseData>,
    /// The concatenation of several `data` lines.
    joined: Vec<u8>,
    /// The data of the current event, if it is not valid UTF-8.
    repaired: String,
}

#[derive(Debug)]
enum SseData {
    /// A single line, as a range of the buffer.
    Line(Range<usize>),
    Joined,
}

impl SseData {
    fn is_not_empty(&self) -> bool {
        match self {
            Self::Line(range) => !range.is_empty(),
            Self::Joined => true,
        }
    }
}

impl SseParser {
    /// The next event with data. An event that lacks its blank line at the end of the body counts too, because some
    /// servers omit it.
    pub(super) fn next<'a>(&'a mut self, lines: &'a mut LineBuffer) -> Option<StreamFrame<'a>> {
        while let Some(line) = lines.next_line_any() {
            if !line.is_empty() {
                self.record_field(lines, line);
            } else if let Some(data) = self.data.take().filter(SseData::is_not_empty) {
                return Some(self.take_frame(data, lines));
            } else {
                self.name = None;
            }
            if self.name.is_none() && self.data.is_none() {
                lines.release();
            }
        }
        let data = self.data.take_if(|data| lines.ended() && data.is_not_empty())?;
        Some(self.take_frame(data, lines))
    }

    /// Records `event` and `data`; other fields and comments are ignored.
    fn record_field(&mut self, lines: &LineBuffer, line: Range<usize>) {
        let bytes = lines.get(line.clone());
        let colon = bytes.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) if bytes.get(at + 1) == Some(&b' ') => (&bytes[..at], at + 2),
            Some(at) => (&bytes[..at], at + 1),
            None => (bytes, bytes.len()),
        };
        let range = line.start + value - lines.retained_start()..line.end - lines.retained_start();
        match name {
            b"event" => self.name = Some(range),
            b"data" => self.append_data(lines, range),
            // llama.cpp sends an error as a field of its own.
            b"error" => {
                let start = line.start - lines.retained_start();
                self.name = Some(start..start + name.len());
                self.append_data(lines, range);
            }
            _ => (),
        }
    }

    fn append_data(&mut self, lines: &LineBuffer, range: Range<usize>) {
        self.data = Some(match self.data.take() {
            None => SseData::Line(range),
            Some(before) => {
                if let SseData::Line(first) = before {
                    self.joined.clear();
                    self.joined.extend_from_slice(lines.get(absolute(first, lines)));
                }
                self.joined.push(b'\n');
                self.joined.extend_from_slice(lines.get(absolute(range, lines)));
                SseData::Joined
            }
        });
    }

    /// Builds the frame and resets the fields.
    fn take_frame<'a>(&'a mut self, data: SseData, lines: &'a mut LineBuffer) -> StreamFrame<'a> {
        let name = self.name.take().map_or(0..0, |name| absolute(name, lines));
        let data = match data {
            SseData::Line(range) => Some(absolute(range, lines)),
            SseData::Joined => None,
        };
        // Released bytes stay in the buffer until the next feed.
        lines.release();
        let data = data.map_or(self.joined.as_slice(), |range| lines.get(range));
        let event = str::from_utf8(lines.get(name)).unwrap_or_default();
        StreamFrame { event, data: as_utf8(data, &mut self.repaired) }
    }
}

/// Converts a relative range to a range of the buffer.
fn absolute(range: Range<usize>, lines: &LineBuffer) -> Range<usize> {
    range.start + lines.retained_start()..range.end + lines.retained_start()
}
