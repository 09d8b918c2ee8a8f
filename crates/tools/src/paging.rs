//! Long text in pieces that a model can bear: whole if it is small, else its ends, or the lines that were asked for.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
};

use crate::{Error, work::Stop};

/// A text up to this size is shown whole.
pub(crate) const WHOLE: usize = 48 * 1024;
/// Of a larger one, this much of its beginning and of its end.
pub(crate) const HEAD: usize = 32 * 1024;
pub(crate) const TAIL: usize = 8 * 1024;

pub(crate) enum Ends {
    Whole(Vec<u8>),
    Cut(Cut),
}

/// The ends of a text, in whole lines where there are lines.
pub(crate) struct Cut {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    /// Bytes between them.
    pub(crate) left_out: u64,
    /// The first line that is left out.
    pub(crate) next: usize,
}

pub(crate) fn ends(mut file: File, size: u64) -> io::Result<Ends> {
    let mut head = Vec::new();
    // The size is only a hint: files grow, and those of the kernel claim to be empty.
    (&mut file).take(WHOLE as u64 + 1).read_to_end(&mut head)?;
    if head.len() <= WHOLE {
        return Ok(Ends::Whole(head));
    }
    head.truncate(line_end(&head, HEAD));
    let next = head.split(|&byte| byte == b'\n').count();
    let mut tail = Vec::new();
    let start = file.seek(SeekFrom::Start(size.saturating_sub(TAIL as u64).max(head.len() as u64)))?;
    file.take(TAIL as u64).read_to_end(&mut tail)?;
    let skipped = line_start(&tail);
    let left_out = start + skipped as u64 - head.len() as u64;
    Ok(Ends::Cut(Cut { head, tail: tail.split_off(skipped), left_out, next }))
}

/// Which lines are wanted, counted from 1.
pub(crate) struct Lines {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

pub(crate) struct Page {
    pub(crate) text: Vec<u8>,
    /// The line to read on with, if there is more.
    pub(crate) next: Option<usize>,
}

/// Why there is no page.
pub(crate) enum NoPage {
    Stopped(Error),
    Unreadable(io::Error),
    PastTheEnd { first: usize, lines: usize },
}

impl NoPage {
    pub(crate) fn of(self, name: &str, tool: &str) -> Error {
        match self {
            Self::Stopped(error) => error,
            Self::Unreadable(source) => Error::Io { path: name.to_owned(), source },
            Self::PastTheEnd { first, lines } => {
                let reason = format!("offset {first} is past the end of `{name}`, which has {lines} lines");
                Error::Arguments { tool: tool.to_owned(), reason }
            }
        }
    }
}

/// Some lines, in one pass that holds no more than it shows.
pub(crate) fn lines(file: File, wanted: &Lines, stop: &Stop) -> Result<Page, NoPage> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut page = Gathered { line: 1, began: 0, text: Vec::new() };
    let more = loop {
        stop.check().map_err(NoPage::Stopped)?;
        let buffer = reader.fill_buf().map_err(NoPage::Unreadable)?;
        if buffer.is_empty() {
            break false;
        }
        let newline = buffer.iter().position(|&byte| byte == b'\n');
        let piece = &buffer[..newline.map_or(buffer.len(), |at| at + 1)];
        if page.line >= wanted.first.saturating_add(wanted.count) || !page.take(piece, wanted.first) {
            break true;
        }
        let used = piece.len();
        reader.consume(used);
    };
    if page.text.is_empty() && page.line <= wanted.first && wanted.count > 0 {
        return Err(NoPage::PastTheEnd { first: wanted.first, lines: page.line - 1 });
    }
    Ok(Page { next: more.then_some(page.line), text: page.text })
}

/// The lines gathered so far.
struct Gathered {
    /// The line that comes next, or that is being read.
    line: usize,
    /// Where that line begins in `text`.
    began: usize,
    text: Vec<u8>,
}

impl Gathered {
    /// Takes a line, or a piece of one, if it is wanted; `false` when the page is full. Only whole lines are kept, so that
    /// the next page begins with the first one missing; a line longer than a page is cut, or nobody would get past it.
    fn take(&mut self, piece: &[u8], first: usize) -> bool {
        let room = if self.line < first { 0 } else { WHOLE - self.text.len() };
        let cut = self.line >= first && piece.len() > room;
        if cut && self.began > 0 {
            self.text.truncate(self.began);
            return false;
        }
        self.text.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.ends_with(b"\n") {
            self.line += 1;
            self.began = self.text.len();
        }
        true
    }
}

/// Where the last whole line before `limit` ends, or the last whole character of one endless line.
pub(crate) fn line_end(bytes: &[u8], limit: usize) -> usize {
    let after_line = bytes[..limit].iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
    after_line.unwrap_or_else(|| (0..=limit).rev().find(|&at| !is_continuation(bytes[at])).unwrap_or(limit))
}

/// Where the first whole line begins, or the first whole character.
pub(crate) fn line_start(bytes: &[u8]) -> usize {
    let after_line =
        bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1).filter(|&at| at < bytes.len());
    after_line.unwrap_or_else(|| bytes.iter().take_while(|&&byte| is_continuation(byte)).count())
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
