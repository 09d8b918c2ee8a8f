//! Spilling of long strings: while a JSON message is received, a string above the size limit is written to the output store,
//! and a placeholder takes its position in the message. For the output of commands see `outputs::capture`.

use bounded_cache::{BoundedCache, Limits};
use lock::LockExt;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::json_unescape::JsonUnescaper;
use crate::{
    OutputStore,
    outputs::{CapturedOutput, OutputCapture},
};

/// Size limit of a string in memory, in escaped bytes. Images are usually smaller.
const MAX_STRING: usize = 4 << 20;
/// Size limit of a string if its line is already long, so that many strings cannot exceed the memory limit together.
const MAX_STRING_IN_LONG_LINE: usize = 16 << 10;
const CHUNK: usize = 64 << 10;
/// How many unclaimed strings are remembered.
const MAX_SPILLED: usize = 256;

/// Spilled strings by placeholder. Clones share them.
#[derive(Clone)]
pub(super) struct SpilledStrings(Arc<Mutex<BoundedCache<String, CapturedOutput>>>);

impl Default for SpilledStrings {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BoundedCache::new(Limits::entries(MAX_SPILLED)))))
    }
}

impl SpilledStrings {
    /// Adds a string and returns its placeholder. It is random, so that a server cannot forge one.
    fn insert(&self, output: CapturedOutput) -> String {
        let placeholder = format!("left out {}", uuid::Uuid::new_v4().simple());
        self.0.locked().insert(placeholder.clone(), output, 0);
        placeholder
    }

    /// Removes and returns the string of a placeholder.
    pub(super) fn take(&self, placeholder: &str) -> Option<CapturedOutput> {
        self.0.locked().remove(placeholder)
    }
}

/// A reader of JSON lines that spills long strings.
pub(super) struct SpillReader<R> {
    inner: R,
    spiller: StringSpiller,
    buffer: Vec<u8>,
    ready: VecDeque<u8>,
}

impl<R> SpillReader<R> {
    pub(super) fn new(inner: R, outputs: OutputStore, spilled: SpilledStrings) -> Self {
        let spiller = StringSpiller::new(outputs, spilled);
        Self { inner, spiller, buffer: vec![0; CHUNK], ready: VecDeque::new() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for SpillReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            let mut chunk = ReadBuf::new(&mut this.buffer);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.spiller.push(chunk.filled(), &mut this.ready);
        }
        let (first, _) = this.ready.as_slices();
        let count = first.len().min(into.remaining());
        into.put_slice(&first[..count]);
        this.ready.drain(..count);
        Poll::Ready(Ok(()))
    }
}

/// A scanner for chunked JSON lines. A line break ends even an unterminated string.
pub(super) struct StringSpiller {
    outputs: OutputStore,
    spilled: SpilledStrings,
    state: ScanState,
    /// The beginning of the current string, while it is below the limit.
    string: Vec<u8>,
    /// Length of the current line without spilled strings.
    line: usize,
}

enum ScanState {
    /// Not in a string.
    Outside,
    /// In a string below the size limit.
    Buffering { escaped: bool },
    /// In a string above the size limit.
    Spilling { escaped: bool, text: Box<(JsonUnescaper, OutputCapture)> },
}

impl StringSpiller {
    pub(super) fn new(outputs: OutputStore, spilled: SpilledStrings) -> Self {
        Self { outputs, spilled, state: ScanState::Outside, string: Vec::new(), line: 0 }
    }

    /// Scans a chunk and appends the message with placeholders to `out`.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut VecDeque<u8>) {
        while !bytes.is_empty() {
            let taken = match &mut self.state {
                ScanState::Outside => self.scan_outside(bytes, out),
                ScanState::Buffering { .. } | ScanState::Spilling { .. } => self.scan_string(bytes, out),
            };
            bytes = &bytes[taken..];
        }
    }

    fn scan_outside(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) -> usize {
        let quote = bytes.iter().position(|&byte| byte == b'"');
        let taken = quote.map_or(bytes.len(), |at| at + 1);
        out.extend(&bytes[..taken]);
        let line = bytes[..taken].iter().rposition(|&byte| byte == b'\n');
        self.line = line.map_or(self.line + taken, |at| taken - at);
        if quote.is_some() {
            self.state = ScanState::Buffering { escaped: false };
        }
        taken
    }

    fn scan_string(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) -> usize {
        let (ScanState::Buffering { escaped } | ScanState::Spilling { escaped, .. }) = &mut self.state else {
            return 0;
        };
        let end = string_end(bytes, escaped);
        let (part, taken) = end.map_or((bytes, bytes.len()), |at| (&bytes[..at], at + 1));
        match &mut self.state {
            ScanState::Spilling { text, .. } => spill(text, part),
            ScanState::Buffering { .. } | ScanState::Outside => self.string.extend_from_slice(part),
        }
        let limit = if self.line > MAX_STRING { MAX_STRING_IN_LONG_LINE } else { MAX_STRING };
        if self.string.len() > limit {
            let mut text = Box::new((JsonUnescaper::default(), OutputCapture::new(self.outputs.clone())));
            spill(&mut text, &std::mem::take(&mut self.string));
            let escaped = matches!(self.state, ScanState::Buffering { escaped: true });
            self.state = ScanState::Spilling { escaped, text };
        }
        if let Some(at) = end {
            match std::mem::replace(&mut self.state, ScanState::Outside) {
                ScanState::Spilling { text, .. } => {
                    out.extend(self.spilled.insert(text.1.finish()).as_bytes());
                }
                ScanState::Buffering { .. } | ScanState::Outside => {
                    self.line = if bytes[at] == b'\n' { 0 } else { self.line + self.string.len() };
                    out.extend(self.string.drain(..));
                }
            }
            out.push_back(bytes[at]);
        }
        taken
    }
}

fn spill(text: &mut (JsonUnescaper, OutputCapture), part: &[u8]) {
    let (unescape, capture) = text;
    for chunk in part.chunks(CHUNK) {
        capture.push(&unescape.push(chunk));
    }
}

/// Offset of the quote that ends the string, or of a line break, which cannot occur in a string.
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

    async fn read_spilled(lines: &str) -> (Vec<String>, SpilledStrings, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spilled = SpilledStrings::default();
        let mut reader = SpillReader::new(lines.as_bytes(), OutputStore::new(dir.path()), spilled.clone());
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        (text.lines().map(str::to_owned).collect(), spilled, dir)
    }

    #[tokio::test]
    async fn short_strings_pass_unchanged() {
        let lines = "{\"a\\\"\\\\\": \"b\\u00e9\"}\n\"broken\n{\"c\": [1, \"\"]}\nno \" JSON\n";
        let (lines_read, ..) = read_spilled(lines).await;
        assert_eq!(lines_read, lines.lines().collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn long_string_is_stored_and_replaced_by_a_placeholder() {
        let long = "say \"é\" and 🦀\n".repeat(500_000);
        let line = json!({"id": 1, "text": long, "after": "x"}).to_string();
        let (lines_read, spilled, dir) = read_spilled(&format!("{line}\n{{\"next\":\"line\"}}\n")).await;
        let message: Value = serde_json::from_str(&lines_read[0]).unwrap();
        assert_eq!((&message["id"], &message["after"]), (&json!(1), &json!("x")));
        let output = spilled.take(message["text"].as_str().unwrap()).unwrap();
        assert_eq!(output.bytes, long.len() as u64);
        assert!(std::fs::read_to_string(dir.path().join(output.handle.unwrap())).unwrap() == long);
        assert_eq!(lines_read[1], "{\"next\":\"line\"}");
        assert!(spilled.take(message["text"].as_str().unwrap()).is_none(), "a placeholder is valid once");
    }

    #[tokio::test]
    async fn many_strings_in_one_line_are_spilled_and_the_next_line_is_not() {
        let strings = vec!["x".repeat(100_000); 300];
        let next = json!({"text": "x".repeat(100_000)}).to_string();
        let (lines_read, spilled, _dir) = read_spilled(&format!("{}\n{next}\n", json!(strings))).await;
        assert!(lines_read[0].len() < 5_000_000, "{}", lines_read[0].len());
        let strings: Vec<String> = serde_json::from_str(&lines_read[0]).unwrap();
        let count = strings.iter().filter_map(|placeholder| spilled.take(placeholder)).count();
        assert!(strings.len() == 300 && count >= 250, "{count}");
        assert_eq!(lines_read[1], next);
    }

    #[tokio::test]
    async fn unterminated_string_ends_with_its_line() {
        let (lines_read, ..) =
            read_spilled(&format!("\"{}\n{{\"next\":\"line\"}}\n", "x".repeat(MAX_STRING * 2))).await;
        assert!(
            serde_json::from_str::<Value>(&lines_read[0]).is_err() && lines_read[0].len() < 100,
            "{}",
            lines_read[0]
        );
        assert_eq!(lines_read[1], "{\"next\":\"line\"}");
    }
}
