//! Bounded views of long text: the whole of a small text, head and tail of a larger one, or a range of lines.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use crate::{ToolsError, blocking::CancelFlag};

/// Text up to this size is returned whole.
pub(crate) const MAX_WHOLE: usize = 48 * 1024;
/// How much of the beginning and of the end of a larger text is returned.
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
pub(crate) const TAIL_BYTES: usize = 8 * 1024;

pub(crate) enum Excerpt {
    Whole(Vec<u8>),
    HeadAndTail(HeadAndTail),
}

/// Beginning and end of a text, cut at line boundaries where there are any.
pub(crate) struct HeadAndTail {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    /// Bytes between head and tail.
    pub(crate) left_out: u64,
    /// Number of the first line that is left out, counted from 1.
    pub(crate) next: usize,
}

pub(crate) fn read_excerpt(mut file: impl Read + Seek, size: u64) -> io::Result<Excerpt> {
    let mut head = Vec::new();
    // The size is only a hint: files grow, and files of procfs report a size of 0.
    (&mut file).take(MAX_WHOLE as u64 + 1).read_to_end(&mut head)?;
    if head.len() <= MAX_WHOLE {
        return Ok(Excerpt::Whole(head));
    }
    head.truncate(line_end(&head, HEAD_BYTES));
    let next = head.split(|&byte| byte == b'\n').count();
    let mut tail = Vec::new();
    let start = file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES as u64).max(head.len() as u64)))?;
    file.take(TAIL_BYTES as u64).read_to_end(&mut tail)?;
    let skipped = line_start(&tail);
    let left_out = start + skipped as u64 - head.len() as u64;
    Ok(Excerpt::HeadAndTail(HeadAndTail { head, tail: tail.split_off(skipped), left_out, next }))
}

/// A range of lines, counted from 1.
pub(crate) struct LineRange {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

pub(crate) struct LinePage {
    pub(crate) text: Vec<u8>,
    /// The first line after this page, if there is one.
    pub(crate) next: Option<usize>,
}

/// Why a page could not be read.
pub(crate) enum PageError {
    Cancelled(ToolsError),
    Unreadable(io::Error),
    PastTheEnd { first: usize, lines: usize },
}

impl PageError {
    /// The error for a call of `tool` that reads `name`.
    pub(crate) fn into_error(self, name: &str, tool: &str) -> ToolsError {
        match self {
            Self::Cancelled(error) => error,
            Self::Unreadable(source) => ToolsError::Read { path: name.to_owned(), source },
            Self::PastTheEnd { first, lines } => {
                let reason = format!("offset {first} is past the end of `{name}`, which has {lines} lines");
                ToolsError::Arguments { tool: tool.to_owned(), reason }
            }
        }
    }
}

/// Reads a range of lines in one pass. Memory use is bounded by the size of a page.
pub(crate) fn read_lines(
    file: impl Read,
    range: &LineRange,
    cancel: &CancelFlag,
) -> Result<LinePage, PageError> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut page = PageBuilder { line: 1, line_start: 0, text: Vec::new() };
    let more = loop {
        cancel.check().map_err(PageError::Cancelled)?;
        let buffer = reader.fill_buf().map_err(PageError::Unreadable)?;
        if buffer.is_empty() {
            break false;
        }
        let newline = buffer.iter().position(|&byte| byte == b'\n');
        let chunk = &buffer[..newline.map_or(buffer.len(), |at| at + 1)];
        if page.line >= range.first.saturating_add(range.count) || !page.push(chunk, range.first) {
            break true;
        }
        let used = chunk.len();
        reader.consume(used);
    };
    if page.text.is_empty() && page.line <= range.first && range.count > 0 {
        return Err(PageError::PastTheEnd { first: range.first, lines: page.line - 1 });
    }
    Ok(LinePage { next: more.then_some(page.line), text: page.text })
}

/// A page while it is filled.
struct PageBuilder {
    /// Number of the line that is being read.
    line: usize,
    /// Offset in `text` where that line begins.
    line_start: usize,
    text: Vec<u8>,
}

impl PageBuilder {
    /// Adds a line, or a part of one, if it is in the range. Returns `false` when the page is full. Pages end at line
    /// boundaries, so that the next one begins with the first missing line. A line longer than a page is truncated, so that
    /// the next page can start after it.
    fn push(&mut self, chunk: &[u8], first: usize) -> bool {
        let room = if self.line < first { 0 } else { MAX_WHOLE - self.text.len() };
        let overflows = self.line >= first && chunk.len() > room;
        if overflows && self.line_start > 0 {
            self.text.truncate(self.line_start);
            return false;
        }
        self.text.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.ends_with(b"\n") {
            self.line += 1;
            self.line_start = self.text.len();
        }
        true
    }
}

/// End of the last complete line before `limit`, or of the last complete character if there is no line break.
pub(crate) fn line_end(bytes: &[u8], limit: usize) -> usize {
    let after_line = bytes[..limit].iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
    after_line.unwrap_or_else(|| (0..=limit).rev().find(|&at| !is_continuation(bytes[at])).unwrap_or(limit))
}

/// Start of the first complete line, or of the first complete character if there is no line break.
pub(crate) fn line_start(bytes: &[u8]) -> usize {
    let after_line =
        bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1).filter(|&at| at < bytes.len());
    after_line.unwrap_or_else(|| bytes.iter().take_while(|&&byte| is_continuation(byte)).count())
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
