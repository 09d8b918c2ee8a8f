//! A byte buffer that yields lines.

use std::ops::Range;

/// Buffers the bytes that a reader still needs. It records how far the current line was searched, so a long line is
/// scanned once however it is split.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes in front of this offset are no longer needed.
    released: usize,
    /// The start of the current line.
    line: usize,
    /// How far the current line was searched for its end.
    searched: usize,
    /// The previous line ended with CR: a directly following LF belongs to it.
    after_cr: bool,
    /// The first line was returned; a byte order mark is valid only in front of it.
    past_first_line: bool,
    /// The input has ended: the remaining bytes are a line.
    ended: bool,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl LineBuffer {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.released > 0 {
            self.bytes.drain(..self.released);
            self.line -= self.released;
            self.searched -= self.released;
            self.released = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// The next line, terminated by LF, CR or CRLF.
    pub(super) fn next_line_any(&mut self) -> Option<Range<usize>> {
        if self.after_cr && *self.bytes.get(self.line)? == b'\n' {
            self.line += 1;
            self.searched = self.line;
        }
        self.after_cr = false;
        let line = self.find_line(|byte| byte == b'\n' || byte == b'\r')?;
        self.after_cr = self.bytes.get(line.end) == Some(&b'\r');
        Some(line)
    }

    /// The next line, terminated by LF.
    pub(super) fn next_line_lf(&mut self) -> Option<Range<usize>> {
        self.find_line(|byte| byte == b'\n')
    }

    /// The bytes of a line. They stay valid until the next [`Self::feed`].
    pub(super) fn get(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }

    /// Releases all bytes in front of the current line.
    pub(super) fn release(&mut self) {
        self.released = self.line;
    }

    /// The number of bytes that are not released.
    pub(super) fn retained(&self) -> usize {
        self.bytes.len() - self.released
    }

    /// The offset of the first byte that is not released.
    pub(super) fn retained_start(&self) -> usize {
        self.released
    }

    fn find_line(&mut self, mut ends: impl FnMut(u8) -> bool) -> Option<Range<usize>> {
        let found = self.bytes[self.searched..].iter().position(|byte| ends(*byte));
        match found {
            Some(at) => Some(self.end_line(self.searched + at)),
            None if self.ended && self.line < self.bytes.len() => Some(self.end_line(self.bytes.len())),
            None => {
                self.searched = self.bytes.len();
                None
            }
        }
    }

    fn end_line(&mut self, end: usize) -> Range<usize> {
        let has_mark = !self.past_first_line && self.bytes[self.line..end].starts_with(BYTE_ORDER_MARK);
        let begin = if has_mark { self.line + BYTE_ORDER_MARK.len() } else { self.line };
        self.past_first_line = true;
        self.line = self.bytes.len().min(end + 1);
        self.searched = self.line;
        begin..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_scanned_once_per_byte() {
        let mut lines = LineBuffer::default();
        let mut scanned = 0;
        for _ in 0..3000 {
            lines.feed(&[b'x'; 1400]);
            assert_eq!(
                lines.find_line(|_| {
                    scanned += 1;
                    false
                }),
                None
            );
        }
        lines.feed(b"\n");
        assert_eq!(lines.next_line_lf(), Some(0..3000 * 1400));
        assert_eq!(scanned, 3000 * 1400);
    }
}
