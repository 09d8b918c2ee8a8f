//! What a server sends, made thin: a string that is longer than belongs into memory is kept beside the conversation while it
//! comes, and a mark stands for it in the message.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::unescape::Unescape;
use crate::{
    OutputStore,
    outputs::{CapturedOutput, OutputCapture},
};

/// As it is written, in bytes. Pictures are shorter, as a rule.
const LONGEST: usize = 4 << 20;
/// The same where much has come before in its line, so that what many strings hold passes too.
const LONGEST_IN_LONG_LINE: usize = 16 << 10;
const PIECE: usize = 64 << 10;
/// Of strings that nobody has asked for.
const MOST_KEPT: usize = 256;

/// Strings that were left out of messages, by their marks.
#[derive(Clone, Default)]
pub(super) struct Shelf(Arc<Mutex<VecDeque<(String, CapturedOutput)>>>);

impl Shelf {
    /// Nobody but us can make a mark.
    fn put(&self, shown: CapturedOutput) -> String {
        let mark = format!("left out {}", uuid::Uuid::new_v4().simple());
        let mut all = self.all();
        all.push_back((mark.clone(), shown));
        if all.len() > MOST_KEPT {
            all.pop_front();
        }
        mark
    }

    /// The string that a mark stands for.
    pub(super) fn take(&self, mark: &str) -> Option<CapturedOutput> {
        let mut all = self.all();
        let at = all.iter().position(|(known, _)| known == mark)?;
        all.remove(at).map(|(_, shown)| shown)
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<(String, CapturedOutput)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output of a server, line by line JSON.
pub(super) struct Thin<R> {
    output: R,
    thinner: Thinner,
    piece: Vec<u8>,
    ready: VecDeque<u8>,
}

impl<R> Thin<R> {
    pub(super) fn new(output: R, outputs: OutputStore, shelf: Shelf) -> Self {
        Self { output, thinner: Thinner::new(outputs, shelf), piece: vec![0; PIECE], ready: VecDeque::new() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Thin<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            let mut piece = ReadBuf::new(&mut this.piece);
            ready!(Pin::new(&mut this.output).poll_read(context, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.thinner.take(piece.filled(), &mut this.ready);
        }
        let (first, _) = this.ready.as_slices();
        let count = first.len().min(into.remaining());
        into.put_slice(&first[..count]);
        this.ready.drain(..count);
        Poll::Ready(Ok(()))
    }
}

/// JSON in pieces; a line break ends whatever was begun.
pub(super) struct Thinner {
    outputs: OutputStore,
    shelf: Shelf,
    place: Place,
    /// The string that we are in, as long as it is short enough.
    string: Vec<u8>,
    /// How much of its line has passed.
    line: usize,
}

enum Place {
    Outside,
    Inside { escaped: bool },
    Long { escaped: bool, text: Box<(Unescape, OutputCapture)> },
}

impl Thinner {
    pub(super) fn new(outputs: OutputStore, shelf: Shelf) -> Self {
        Self { outputs, shelf, place: Place::Outside, string: Vec::new(), line: 0 }
    }

    pub(super) fn take(&mut self, mut bytes: &[u8], out: &mut VecDeque<u8>) {
        while !bytes.is_empty() {
            let taken = match &mut self.place {
                Place::Outside => self.outside(bytes, out),
                Place::Inside { .. } | Place::Long { .. } => self.inside(bytes, out),
            };
            bytes = &bytes[taken..];
        }
    }

    fn outside(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) -> usize {
        let quote = bytes.iter().position(|&byte| byte == b'"');
        let taken = quote.map_or(bytes.len(), |at| at + 1);
        out.extend(&bytes[..taken]);
        let line = bytes[..taken].iter().rposition(|&byte| byte == b'\n');
        self.line = line.map_or(self.line + taken, |at| taken - at);
        if quote.is_some() {
            self.place = Place::Inside { escaped: false };
        }
        taken
    }

    fn inside(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) -> usize {
        let (Place::Inside { escaped } | Place::Long { escaped, .. }) = &mut self.place else { return 0 };
        let end = string_end(bytes, escaped);
        let (part, taken) = end.map_or((bytes, bytes.len()), |at| (&bytes[..at], at + 1));
        match &mut self.place {
            Place::Long { text, .. } => keep(text, part),
            Place::Inside { .. } | Place::Outside => self.string.extend_from_slice(part),
        }
        let longest = if self.line > LONGEST { LONGEST_IN_LONG_LINE } else { LONGEST };
        if self.string.len() > longest {
            let mut text = Box::new((Unescape::default(), OutputCapture::new(self.outputs.clone())));
            keep(&mut text, &std::mem::take(&mut self.string));
            let escaped = matches!(self.place, Place::Inside { escaped: true });
            self.place = Place::Long { escaped, text };
        }
        if let Some(at) = end {
            match std::mem::replace(&mut self.place, Place::Outside) {
                Place::Long { text, .. } => out.extend(self.shelf.put(text.1.finish()).as_bytes()),
                Place::Inside { .. } | Place::Outside => {
                    self.line = if bytes[at] == b'\n' { 0 } else { self.line + self.string.len() };
                    out.extend(self.string.drain(..));
                }
            }
            out.push_back(bytes[at]);
        }
        taken
    }
}

fn keep(text: &mut (Unescape, OutputCapture), part: &[u8]) {
    let (unescape, capture) = text;
    for piece in part.chunks(PIECE) {
        capture.push(&unescape.take(piece));
    }
}

/// Where the quote is that ends the string, or the line break that no string has.
fn string_end(bytes: &[u8], escaped: &mut bool) -> Option<usize> {
    let mut at = 0;
    if std::mem::take(escaped) {
        match bytes.first() {
            Some(b'\n') => return Some(0),
            Some(_) => at = 1,
            None => *escaped = true,
        }
    }
    loop {
        at += bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | b'\n'))?;
        if bytes[at] != b'\\' {
            return Some(at);
        }
        match bytes.get(at + 1) {
            Some(b'\n') => return Some(at + 1),
            Some(_) => at += 2,
            None => {
                *escaped = true;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn thinned(lines: &str) -> (Vec<String>, Shelf, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::default();
        let mut thin = Thin::new(lines.as_bytes(), OutputStore::new(dir.path()), shelf.clone());
        let mut text = String::new();
        thin.read_to_string(&mut text).await.unwrap();
        (text.lines().map(str::to_owned).collect(), shelf, dir)
    }

    #[tokio::test]
    async fn what_is_short_passes_as_it_came() {
        let lines = "{\"a\\\"\\\\\": \"b\\u00e9\"}\n\"broken\n{\"c\": [1, \"\"]}\nno \" JSON\n";
        let (thin, ..) = thinned(lines).await;
        assert_eq!(thin, lines.lines().collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_long_string_is_kept_and_a_mark_stands_for_it() {
        let long = "say \"é\" and 🦀\n".repeat(500_000);
        let line = json!({"id": 1, "text": long, "after": "x"}).to_string();
        let (thin, shelf, dir) = thinned(&format!("{line}\n{{\"next\":\"line\"}}\n")).await;
        let message: Value = serde_json::from_str(&thin[0]).unwrap();
        assert_eq!((&message["id"], &message["after"]), (&json!(1), &json!("x")));
        let shown = shelf.take(message["text"].as_str().unwrap()).unwrap();
        assert_eq!(shown.bytes, long.len() as u64);
        assert!(std::fs::read_to_string(dir.path().join(shown.handle.unwrap())).unwrap() == long);
        assert_eq!(thin[1], "{\"next\":\"line\"}");
        assert!(shelf.take(message["text"].as_str().unwrap()).is_none(), "it is given once");
    }

    #[tokio::test]
    async fn a_line_of_many_strings_passes_thin_and_the_next_one_whole() {
        let strings = vec!["x".repeat(100_000); 300];
        let next = json!({"text": "x".repeat(100_000)}).to_string();
        let (thin, shelf, _dir) = thinned(&format!("{}\n{next}\n", json!(strings))).await;
        assert!(thin[0].len() < 5_000_000, "{}", thin[0].len());
        let strings: Vec<String> = serde_json::from_str(&thin[0]).unwrap();
        let outputs = strings.iter().filter_map(|mark| shelf.take(mark)).count();
        assert!(strings.len() == 300 && outputs >= 250, "{outputs}");
        assert_eq!(thin[1], next);
    }

    #[tokio::test]
    async fn a_long_line_that_is_no_json_ends_with_its_line() {
        let (thin, ..) = thinned(&format!("\"{}\n{{\"next\":\"line\"}}\n", "x".repeat(LONGEST * 2))).await;
        assert!(serde_json::from_str::<Value>(&thin[0]).is_err() && thin[0].len() < 100, "{}", thin[0]);
        assert_eq!(thin[1], "{\"next\":\"line\"}");
    }
}
