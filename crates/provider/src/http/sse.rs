//! Server-sent events: a field in each line, an event at each blank line.

use super::{
    lines::LineBuffer,
    splitter::{FramingError, text},
};
use crate::StreamFrame;
use std::ops::Range;

/// The fields of the event that is being read. Places are counted from where its first line begins, since the buffer moves.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    name: Option<Range<usize>>,
    data: Option<SseData>,
    /// Several lines of data as one.
    joined: Vec<u8>,
}

#[derive(Debug)]
enum SseData {
    /// One line, where it lies in the buffer.
    Line(Range<usize>),
    Joined,
}

impl SseData {
    fn says_something(&self) -> bool {
        match self {
            Self::Line(place) => !place.is_empty(),
            Self::Joined => true,
        }
    }
}

impl SseParser {
    /// The next event that has data. One that the end of the body cuts off before its blank line counts too: servers do that.
    pub(super) fn next<'a>(
        &'a mut self,
        lines: &'a mut LineBuffer,
    ) -> Result<Option<StreamFrame<'a>>, FramingError> {
        while let Some(line) = lines.by_any_end() {
            if !line.is_empty() {
                self.field(lines, line);
            } else if let Some(data) = self.data.take().filter(SseData::says_something) {
                return self.frame(data, lines).map(Some);
            } else {
                self.name = None;
            }
            if self.name.is_none() && self.data.is_none() {
                lines.release();
            }
        }
        match self.data.take_if(|data| lines.ended() && data.says_something()) {
            Some(data) => self.frame(data, lines).map(Some),
            None => Ok(None),
        }
    }

    /// Takes what frames are made of; a comment, which has no name, and other fields mean nothing here.
    fn field(&mut self, lines: &LineBuffer, line: Range<usize>) {
        let bytes = lines.get(line.clone());
        let colon = bytes.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) if bytes.get(at + 1) == Some(&b' ') => (&bytes[..at], at + 2),
            Some(at) => (&bytes[..at], at + 1),
            None => (bytes, bytes.len()),
        };
        let place = line.start + value - lines.start()..line.end - lines.start();
        match name {
            b"event" => self.name = Some(place),
            b"data" => self.add(lines, place),
            _ => (),
        }
    }

    fn add(&mut self, lines: &LineBuffer, place: Range<usize>) {
        self.data = Some(match self.data.take() {
            None => SseData::Line(place),
            Some(before) => {
                if let SseData::Line(first) = before {
                    self.joined.clear();
                    self.joined.extend_from_slice(lines.get(moved(first, lines)));
                }
                self.joined.push(b'\n');
                self.joined.extend_from_slice(lines.get(moved(place, lines)));
                SseData::Joined
            }
        });
    }

    /// The event, and the end of its fields.
    fn frame<'a>(
        &'a mut self,
        data: SseData,
        lines: &'a mut LineBuffer,
    ) -> Result<StreamFrame<'a>, FramingError> {
        let name = self.name.take().map_or(0..0, |name| moved(name, lines));
        let data = match data {
            SseData::Line(place) => Some(moved(place, lines)),
            SseData::Joined => None,
        };
        // The bytes stay until more are fed.
        lines.release();
        let data = data.map_or(self.joined.as_slice(), |place| lines.get(place));
        Ok(StreamFrame { event: text(lines.get(name))?, data: text(data)? })
    }
}

/// A place in the buffer as it lies now.
fn moved(place: Range<usize>, lines: &LineBuffer) -> Range<usize> {
    place.start + lines.start()..place.end + lines.start()
}
