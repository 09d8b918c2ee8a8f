//! Capture of streamed command output: head and tail stay in memory, and the whole goes to disk (spill), into the output
//! store, once it is too long to show.

use std::{borrow::Cow, collections::VecDeque, fs::File, io::Write};

use serde_json::{Map, Value};

use super::{HandleKind, OutputStore, to_plain_text};
use crate::{
    ToolsError,
    mask::MaskStream,
    media,
    paging::{HEAD_BYTES, MAX_WHOLE, TAIL_BYTES, line_end, line_start},
};

/// Size limit of one stored output, so that a program that never stops writing cannot fill the disk.
const MAX_STORED: u64 = 1 << 30;

/// An output while it is being received.
pub(crate) struct OutputCapture {
    store: OutputStore,
    mask: MaskStream,
    /// All of a short output, or the beginning of a long one.
    head: Vec<u8>,
    /// The last bytes after `head`.
    tail: VecDeque<u8>,
    total: u64,
    file: Option<(String, File)>,
    /// Why the store does not hold the whole output, if it does not.
    store_error: Option<String>,
}

impl OutputCapture {
    pub(crate) fn new(store: OutputStore) -> Self {
        let mask = store.mask.stream();
        Self { store, mask, head: Vec::new(), tail: VecDeque::new(), total: 0, file: None, store_error: None }
    }

    /// A capture that stores from the first byte, so that the output can be read while it grows.
    pub(crate) fn stored_from_start(store: OutputStore) -> Result<(Self, String), ToolsError> {
        let (handle, file) = store.create(HandleKind::Output)?;
        let capture = Self { file: Some((handle.clone(), file)), ..Self::new(store) };
        Ok((capture, handle))
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a chunk and returns the redacted text that can be shown so far.
    pub(crate) fn push<'c>(&mut self, chunk: &'c [u8]) -> Cow<'c, [u8]> {
        let masked = self.mask.push(chunk);
        self.push_masked(&masked);
        masked
    }

    /// Flushes the text that the mask held back. The output is complete.
    pub(crate) fn flush(&mut self) {
        let rest = self.mask.finish();
        self.push_masked(&rest);
    }

    fn push_masked(&mut self, chunk: &[u8]) {
        let room = MAX_WHOLE.saturating_sub(self.head.len());
        let (first, rest) = chunk.split_at(chunk.len().min(if self.tail.is_empty() { room } else { 0 }));
        self.head.extend_from_slice(first);
        if !rest.is_empty() && self.file.is_none() && self.store_error.is_none() {
            self.start_storing(first.len());
        }
        self.store_chunk(chunk);
        self.total += chunk.len() as u64;
        let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
    }

    /// Creates the file and writes the output before the current chunk, of which `taken` bytes are already in `head`.
    fn start_storing(&mut self, taken: usize) {
        match self.store.create(HandleKind::Output) {
            Ok(file) => {
                self.file = Some(file);
                let before = self.head[..self.head.len() - taken].to_vec();
                self.store_chunk(&before);
            }
            Err(error) => self.store_error = Some(error.to_string()),
        }
    }

    fn store_chunk(&mut self, chunk: &[u8]) {
        let Some((_, file)) = &mut self.file else { return };
        if self.store_error.is_some() {
            return;
        }
        if self.total > MAX_STORED {
            self.store_error = Some(format!("only the first {} MiB are stored", MAX_STORED >> 20));
        } else if let Err(error) = file.write_all(chunk) {
            self.store_error = Some(format!("storing stopped because of an error: {error}"));
        }
    }

    /// The captured output as the model gets it.
    pub(crate) fn finish(mut self) -> CapturedOutput {
        self.flush();
        let kind = media::binary_kind(&self.head[..self.head.len().min(media::SNIFF_BYTES)]);
        let text = if kind.is_some() { String::new() } else { self.excerpt() };
        // If the text differs from the raw output, the raw output must stay readable.
        let differs = kind.is_some() || text.as_bytes() != self.head;
        if self.file.is_none() && self.store_error.is_none() && differs && self.total > 0 {
            self.start_storing(0);
        }
        if self.file.is_some() {
            self.store.prune();
        }
        let handle = self.file.map(|(handle, _)| handle);
        CapturedOutput { bytes: self.total, text, binary: kind, handle, store_error: self.store_error }
    }

    /// The whole text if it is short, else its head and tail.
    fn excerpt(&self) -> String {
        if self.tail.is_empty() {
            return to_plain_text(&self.head);
        }
        // If the output is only a little too long, its tail begins in `head`.
        let before = &self.head[self.head.len() - (TAIL_BYTES - self.tail.len())..];
        let tail: Vec<u8> = before.iter().chain(&self.tail).copied().collect();
        let (end, start) = (line_end(&self.head, HEAD_BYTES), line_start(&tail));
        let left_out = self.total - end as u64 - (tail.len() - start) as u64;
        let next = self.head[..end].split(|&byte| byte == b'\n').count();
        let note = format!("\n[… {left_out} bytes left out; read_output shows them, from line {next} …]\n");
        format!("{}{note}{}", to_plain_text(&self.head[..end]), to_plain_text(&tail[start..]))
    }
}

/// A complete output, ready for the result of a call.
#[derive(Debug)]
pub(crate) struct CapturedOutput {
    pub(crate) bytes: u64,
    pub(crate) text: String,
    pub(crate) binary: Option<&'static str>,
    pub(crate) handle: Option<String>,
    store_error: Option<String>,
}

impl CapturedOutput {
    /// Adds the fields of the output to the result of a call.
    pub(crate) fn write_to(self, answer: &mut Map<String, Value>) {
        answer.insert("bytes".to_owned(), self.bytes.into());
        match self.binary {
            Some(kind) => answer.insert("binary".to_owned(), kind.into()),
            None => answer.insert("output".to_owned(), self.text.into()),
        };
        if let Some(handle) = self.handle {
            answer.insert("handle".to_owned(), handle.into());
        }
        if let Some(store_error) = self.store_error {
            answer.insert("not_kept_whole".to_owned(), store_error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn capture(chunks: &[&[u8]]) -> (tempfile::TempDir, OutputStore, CapturedOutput) {
        let dir = tempfile::tempdir().unwrap();
        let store = OutputStore::new(dir.path());
        let mut capture = OutputCapture::new(store.clone());
        for chunk in chunks {
            capture.push(chunk);
        }
        let output = capture.finish();
        (dir, store, output)
    }

    fn stored(store: &OutputStore, output: &CapturedOutput) -> Vec<u8> {
        let file = store.open(HandleKind::Output, output.handle.as_ref().unwrap()).unwrap();
        io::Read::bytes(file).map(Result::unwrap).collect()
    }

    #[test]
    fn short_output_is_returned_whole_and_not_stored() {
        let (dir, _, output) = capture(&[b"one\n", b"two\n"]);
        assert_eq!((output.text.as_str(), output.bytes, output.handle), ("one\ntwo\n", 8, None));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn escape_sequences_are_removed_from_the_text_and_stored() {
        let (_dir, store, output) = capture(&[b"\x1b[31mred", b"\x1b[0m\n"]);
        assert_eq!(output.text, "red\n");
        assert_eq!(stored(&store, &output), b"\x1b[31mred\x1b[0m\n");
    }

    #[test]
    fn binary_output_is_identified_and_stored() {
        let (_dir, store, output) = capture(&[b"\x1f\x8b\0\0"]);
        assert_eq!((output.text.as_str(), output.binary), ("", Some("gzip data")));
        assert_eq!(stored(&store, &output), b"\x1f\x8b\0\0");
    }

    #[test]
    fn secret_is_redacted_in_the_text_and_in_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = OutputStore::new(dir.path()).with_mask(crate::Mask::new(["sk-canary-123".to_owned()]));
        let mut capture = OutputCapture::new(store.clone());
        for chunk in [b"a sk-can".as_slice(), b"ary-123 b\n", &vec![b'x'; MAX_WHOLE], b"\nsk-canary-123"] {
            capture.push(chunk);
        }
        let output = capture.finish();
        assert!(output.text.starts_with("a [masked] b\n") && output.text.ends_with("\n[masked]"));
        assert!(!String::from_utf8(stored(&store, &output)).unwrap().contains("canary"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]
        #[test]
        fn long_output_is_stored_whole_for_any_chunking(sizes in proptest::collection::vec(1_usize..30_000, 1..12)) {
            let mut line = 0;
            let chunks: Vec<Vec<u8>> = sizes.iter().map(|&size| {
                let mut chunk = Vec::new();
                while chunk.len() < size {
                    chunk.extend_from_slice(format!("line {line}\n").as_bytes());
                    line += 1;
                }
                chunk
            }).collect();
            let all = chunks.concat();
            let borrowed: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let (_dir, store, output) = capture(&borrowed);
            proptest::prop_assert_eq!(output.bytes, all.len() as u64);
            if all.len() <= MAX_WHOLE {
                proptest::prop_assert_eq!(output.text.as_bytes(), all);
            } else {
                proptest::prop_assert_eq!(stored(&store, &output), all);
                proptest::prop_assert!(output.text.len() < HEAD_BYTES + TAIL_BYTES + 200);
                let last = format!("line {}\n", line - 1);
                proptest::prop_assert!(output.text.starts_with("line 0\n") && output.text.ends_with(&last));
            }
        }
    }
}
