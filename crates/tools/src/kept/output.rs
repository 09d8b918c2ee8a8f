//! Output that comes in pieces: its ends stay in memory, the whole of it goes to a kept file once it is too long to show.

use std::{borrow::Cow, collections::VecDeque, fs::File, io::Write};

use serde_json::{Map, Value};

use super::{Kept, Kind, plain};
use crate::{
    ToolsError,
    mask::MaskStream,
    media,
    paging::{HEAD_BYTES, MAX_WHOLE, TAIL_BYTES, line_end, line_start},
};

/// No more than this is kept of one output; a program that never stops writing must not fill the disk.
const MAX_KEPT: u64 = 1 << 30;

/// An output while it comes in.
pub(crate) struct Capture {
    kept: Kept,
    mask: MaskStream,
    /// All of it while it is short, then its beginning.
    head: Vec<u8>,
    /// The last bytes after `head`.
    tail: VecDeque<u8>,
    total: u64,
    file: Option<(String, File)>,
    /// Why the whole is not kept, if it is not.
    fault: Option<String>,
}

impl Capture {
    pub(crate) fn new(kept: Kept) -> Self {
        let mask = kept.mask.stream();
        Self { kept, mask, head: Vec::new(), tail: VecDeque::new(), total: 0, file: None, fault: None }
    }

    /// One that is kept from its first byte, so that it can be read while it grows.
    pub(crate) fn kept_from_the_start(kept: Kept) -> Result<(Self, String), ToolsError> {
        let (handle, file) = kept.create(Kind::Output)?;
        let capture = Self { file: Some((handle.clone(), file)), ..Self::new(kept) };
        Ok((capture, handle))
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Answers with what may be shown by now.
    pub(crate) fn take<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        let masked = self.mask.push(piece);
        self.take_masked(&masked);
        masked
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self) {
        let rest = self.mask.finish();
        self.take_masked(&rest);
    }

    fn take_masked(&mut self, piece: &[u8]) {
        let room = MAX_WHOLE.saturating_sub(self.head.len());
        let (first, rest) = piece.split_at(piece.len().min(if self.tail.is_empty() { room } else { 0 }));
        self.head.extend_from_slice(first);
        if !rest.is_empty() && self.file.is_none() && self.fault.is_none() {
            self.begin_to_keep(first.len());
        }
        self.keep(piece);
        self.total += piece.len() as u64;
        let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
        self.tail.extend(rest);
        let too_many = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..too_many);
    }

    /// Writes what came before this piece, whose first bytes are in `head` already.
    fn begin_to_keep(&mut self, taken: usize) {
        match self.kept.create(Kind::Output) {
            Ok(file) => {
                self.file = Some(file);
                let before = self.head[..self.head.len() - taken].to_vec();
                self.keep(&before);
            }
            Err(error) => self.fault = Some(error.to_string()),
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let Some((_, file)) = &mut self.file else { return };
        if self.fault.is_some() {
            return;
        }
        if self.total > MAX_KEPT {
            self.fault = Some(format!("only its first {} MiB are kept", MAX_KEPT >> 20));
        } else if let Err(error) = file.write_all(piece) {
            self.fault = Some(format!("it is kept up to where this happened: {error}"));
        }
    }

    /// What a model is shown of it.
    pub(crate) fn finish(mut self) -> Shown {
        self.end();
        let kind = media::binary_kind(&self.head[..self.head.len().min(media::SNIFF_BYTES)]);
        let text = if kind.is_some() { String::new() } else { self.text() };
        // What is shown differs from what came: that stays within reach.
        let differs = kind.is_some() || text.as_bytes() != self.head;
        if self.file.is_none() && self.fault.is_none() && differs && self.total > 0 {
            self.begin_to_keep(0);
        }
        if self.file.is_some() {
            self.kept.prune();
        }
        let handle = self.file.map(|(handle, _)| handle);
        Shown { bytes: self.total, text, binary: kind, handle, fault: self.fault }
    }

    fn text(&self) -> String {
        if self.tail.is_empty() {
            return plain(&self.head);
        }
        // A text that is hardly too long has its end in `head`, beyond what is shown of it.
        let before = &self.head[self.head.len() - (TAIL_BYTES - self.tail.len())..];
        let tail: Vec<u8> = before.iter().chain(&self.tail).copied().collect();
        let (end, start) = (line_end(&self.head, HEAD_BYTES), line_start(&tail));
        let left_out = self.total - end as u64 - (tail.len() - start) as u64;
        let next = self.head[..end].split(|&byte| byte == b'\n').count();
        let note = format!("\n[… {left_out} bytes left out; read_output shows them, from line {next} …]\n");
        format!("{}{note}{}", plain(&self.head[..end]), plain(&tail[start..]))
    }
}

/// An output, fit to be shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) bytes: u64,
    pub(crate) text: String,
    pub(crate) binary: Option<&'static str>,
    pub(crate) handle: Option<String>,
    fault: Option<String>,
}

impl Shown {
    /// Adds what there is to say to an answer.
    pub(crate) fn tell(self, answer: &mut Map<String, Value>) {
        answer.insert("bytes".to_owned(), self.bytes.into());
        match self.binary {
            Some(kind) => answer.insert("binary".to_owned(), kind.into()),
            None => answer.insert("output".to_owned(), self.text.into()),
        };
        if let Some(handle) = self.handle {
            answer.insert("handle".to_owned(), handle.into());
        }
        if let Some(fault) = self.fault {
            answer.insert("not_kept_whole".to_owned(), fault.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn capture(pieces: &[&[u8]]) -> (tempfile::TempDir, Kept, Shown) {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path());
        let mut capture = Capture::new(kept.clone());
        for piece in pieces {
            capture.take(piece);
        }
        let shown = capture.finish();
        (dir, kept, shown)
    }

    fn whole(kept: &Kept, shown: &Shown) -> Vec<u8> {
        let file = kept.open(Kind::Output, shown.handle.as_ref().unwrap()).unwrap();
        io::Read::bytes(file).map(Result::unwrap).collect()
    }

    #[test]
    fn a_short_output_is_shown_whole_and_leaves_no_file() {
        let (dir, _, shown) = capture(&[b"one\n", b"two\n"]);
        assert_eq!((shown.text.as_str(), shown.bytes, shown.handle), ("one\ntwo\n", 8, None));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn escape_sequences_are_out_of_sight_and_kept() {
        let (_dir, kept, shown) = capture(&[b"\x1b[31mred", b"\x1b[0m\n"]);
        assert_eq!(shown.text, "red\n");
        assert_eq!(whole(&kept, &shown), b"\x1b[31mred\x1b[0m\n");
    }

    #[test]
    fn binary_output_is_named_and_kept() {
        let (_dir, kept, shown) = capture(&[b"\x1f\x8b\0\0"]);
        assert_eq!((shown.text.as_str(), shown.binary), ("", Some("gzip data")));
        assert_eq!(whole(&kept, &shown), b"\x1f\x8b\0\0");
    }

    #[test]
    fn a_secret_is_neither_shown_nor_kept() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path()).masking(crate::Mask::new(["sk-canary-123".to_owned()]));
        let mut capture = Capture::new(kept.clone());
        for piece in [b"a sk-can".as_slice(), b"ary-123 b\n", &vec![b'x'; MAX_WHOLE], b"\nsk-canary-123"] {
            capture.take(piece);
        }
        let shown = capture.finish();
        assert!(shown.text.starts_with("a [masked] b\n") && shown.text.ends_with("\n[masked]"));
        assert!(!String::from_utf8(whole(&kept, &shown)).unwrap().contains("canary"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]
        #[test]
        fn a_long_output_is_kept_whole_however_it_comes(sizes in proptest::collection::vec(1_usize..30_000, 1..12)) {
            let mut line = 0;
            let pieces: Vec<Vec<u8>> = sizes.iter().map(|&size| {
                let mut piece = Vec::new();
                while piece.len() < size {
                    piece.extend_from_slice(format!("line {line}\n").as_bytes());
                    line += 1;
                }
                piece
            }).collect();
            let all = pieces.concat();
            let borrowed: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let (_dir, kept, shown) = capture(&borrowed);
            proptest::prop_assert_eq!(shown.bytes, all.len() as u64);
            if all.len() <= MAX_WHOLE {
                proptest::prop_assert_eq!(shown.text.as_bytes(), all);
            } else {
                proptest::prop_assert_eq!(whole(&kept, &shown), all);
                proptest::prop_assert!(shown.text.len() < HEAD_BYTES + TAIL_BYTES + 200);
                let last = format!("line {}\n", line - 1);
                proptest::prop_assert!(shown.text.starts_with("line 0\n") && shown.text.ends_with(&last));
            }
        }
    }
}
