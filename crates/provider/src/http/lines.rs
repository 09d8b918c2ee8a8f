//! Bytes as they come, and the lines in them.

use std::ops::Range;

/// Keeps what a reader still needs and remembers how far it was searched, so that a long line costs its length once.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// What lies before is no longer needed.
    kept: usize,
    /// Where the current line begins.
    line: usize,
    /// How far the current line was searched for its end.
    searched: usize,
    /// A carriage return ended the line before: a line feed that follows belongs to it.
    after_return: bool,
    /// The first line was taken; only before it may stand a byte order mark.
    begun: bool,
    /// No more bytes come: what is left is a line too.
    ended: bool,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl LineBuffer {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.kept > 0 {
            self.bytes.drain(..self.kept);
            self.line -= self.kept;
            self.searched -= self.kept;
            self.kept = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// The next line, ended by a line feed, by a carriage return, or by both.
    pub(super) fn by_any_end(&mut self) -> Option<Range<usize>> {
        if self.after_return && *self.bytes.get(self.line)? == b'\n' {
            self.line += 1;
            self.searched = self.line;
        }
        self.after_return = false;
        let line = self.next(|byte| byte == b'\n' || byte == b'\r')?;
        self.after_return = self.bytes.get(line.end) == Some(&b'\r');
        Some(line)
    }

    /// The next line, ended by a line feed.
    pub(super) fn by_feed(&mut self) -> Option<Range<usize>> {
        self.next(|byte| byte == b'\n')
    }

    /// The bytes of a line, until the next [`Self::feed`].
    pub(super) fn get(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }

    /// All before the current line may go.
    pub(super) fn release(&mut self) {
        self.kept = self.line;
    }

    /// How many bytes are needed still.
    pub(super) fn held(&self) -> usize {
        self.bytes.len() - self.kept
    }

    /// Where the lines that are needed still begin.
    pub(super) fn start(&self) -> usize {
        self.kept
    }

    fn next(&mut self, mut ends: impl FnMut(u8) -> bool) -> Option<Range<usize>> {
        let found = self.bytes[self.searched..].iter().position(|byte| ends(*byte));
        match found {
            Some(at) => Some(self.take(self.searched + at)),
            None if self.ended && self.line < self.bytes.len() => Some(self.take(self.bytes.len())),
            None => {
                self.searched = self.bytes.len();
                None
            }
        }
    }

    fn take(&mut self, end: usize) -> Range<usize> {
        let marked = !self.begun && self.bytes[self.line..end].starts_with(BYTE_ORDER_MARK);
        let begin = if marked { self.line + BYTE_ORDER_MARK.len() } else { self.line };
        self.begun = true;
        self.line = self.bytes.len().min(end + 1);
        self.searched = self.line;
        begin..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_long_line_is_looked_at_once() {
        let mut lines = LineBuffer::default();
        let mut looked = 0;
        for _ in 0..3000 {
            lines.feed(&[b'x'; 1400]);
            assert_eq!(
                lines.next(|_| {
                    looked += 1;
                    false
                }),
                None
            );
        }
        lines.feed(b"\n");
        assert_eq!(lines.by_feed(), Some(0..3000 * 1400));
        assert_eq!(looked, 3000 * 1400);
    }
}
