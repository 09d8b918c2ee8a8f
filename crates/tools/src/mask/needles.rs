//! The forms of a secret that are searched for: verbatim, reversed, hex, base64, percent-encoded and JSON-escaped.
//!
//! The needles are computed once and searched for together, in one pass. A second pass over the text without its line breaks finds hex
//! and base64 that a program has wrapped.

use std::{fmt::Write as _, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::MIN_SECRET;

/// One form of a secret.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Needle {
    form: Vec<u8>,
    /// Programs wrap this form into lines.
    is_wrapped: bool,
}

pub(super) struct Needles {
    /// Sorted.
    all: Vec<Needle>,
    longest: usize,
    /// Hash set of the first three bytes of needles: most ends of a text are no prefix of a needle.
    prefixes: Vec<bool>,
    search: AhoCorasick,
}

impl Needles {
    /// `None` if the needles exceed the limits of the search.
    pub(super) fn compile(secrets: &[String]) -> Option<Self> {
        let mut all: Vec<Needle> = secrets.iter().flat_map(|secret| needles(secret)).collect();
        all.retain(|needle| needle.form.len() >= MIN_SECRET);
        all.sort();
        all.dedup_by(|next, kept| {
            let is_same = next.form == kept.form;
            kept.is_wrapped |= is_same && next.is_wrapped;
            is_same
        });
        let search = AhoCorasick::builder()
            // The longest: a needle wins over its own prefix.
            .match_kind(MatchKind::LeftmostLongest)
            // A DFA of a long key would need tens of megabytes.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(all.iter().map(|needle| &needle.form))
            .ok()?;
        let mut prefixes = vec![false; 1 << PREFIX_BITS];
        for needle in &all {
            prefixes[prefix_hash(&needle.form)] = true;
        }
        let longest = all.iter().map(|needle| needle.form.len()).max().unwrap_or(0);
        Some(Self { all, longest, prefixes, search })
    }

    /// The secrets in `text`, in order and without overlaps.
    pub(super) fn find_all(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.search.find_iter(text).map(|found| found.range()).collect();
        if let Some(joined) = JoinedLines::new(text) {
            let wrapped = self.search.find_iter(&joined.bytes);
            let wrapped = wrapped.filter(|found| self.all[found.pattern().as_usize()].is_wrapped);
            found.extend(wrapped.map(|found| joined.original(found.range())));
            found.sort_by_key(|range| range.start);
            found.dedup_by(|next, kept| {
                let overlaps = next.start < kept.end;
                kept.end = if overlaps { kept.end.max(next.end) } else { kept.end };
                overlaps
            });
        }
        found
    }

    /// Length of the longest end of `text` that a needle begins with and continues.
    pub(super) fn partial_suffix(&self, text: &[u8]) -> usize {
        let unwrapped = self.longest_partial(text, |_| true);
        let wrapped = JoinedLines::new(text).map_or(0, |joined| {
            let length = self.longest_partial(&joined.bytes, |needle| needle.is_wrapped);
            let start = joined.bytes.len() - length;
            if length < MIN_WRAPPED { 0 } else { text.len() - joined.original(start..start + 1).start }
        });
        // Longer ones contain more than line breaks and usual indentation.
        let wrapped = if wrapped > 4 * self.longest { 0 } else { wrapped };
        unwrapped.max(wrapped)
    }

    fn longest_partial(&self, text: &[u8], is_searched: impl Fn(&Needle) -> bool) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let is_partial = |suffix: &[u8]| {
            // The needles that begin with `suffix` are adjacent.
            let after = self.all.partition_point(|needle| needle.form.as_slice() <= suffix);
            let continued = self.all[after..].iter().take_while(|needle| needle.form.starts_with(suffix));
            continued.into_iter().any(&is_searched)
        };
        let begins = |start: &usize| {
            let suffix = &text[*start..];
            (suffix.len() < 3 || self.prefixes[prefix_hash(suffix)]) && is_partial(suffix)
        };
        (first..text.len()).find(begins).map_or(0, |start| text.len() - start)
    }
}

/// The least part of a wrapped secret that a stream holds back across a line break. With less, most ends of lines would be held back.
const MIN_WRAPPED: usize = 6;

/// A text without its line breaks and the indentation after them.
struct JoinedLines {
    bytes: Vec<u8>,
    /// For each break: its position in `bytes`, and the number of bytes left out so far.
    breaks: Vec<(usize, usize)>,
}

impl JoinedLines {
    /// `None` for a single line.
    fn new(text: &[u8]) -> Option<Self> {
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let first = text.iter().position(is_break)?;
        let (mut bytes, mut breaks) = (text[..first].to_vec(), Vec::new());
        let mut rest = &text[first..];
        while !rest.is_empty() {
            let skipped = rest.iter().position(|byte| !is_break(byte) && !matches!(byte, b' ' | b'\t'));
            rest = &rest[skipped.unwrap_or(rest.len())..];
            breaks.push((bytes.len(), text.len() - rest.len() - bytes.len()));
            let line = rest.iter().position(is_break).unwrap_or(rest.len());
            bytes.extend_from_slice(&rest[..line]);
            rest = &rest[line..];
        }
        Some(Self { bytes, breaks })
    }

    /// The range of the text for a range that is not empty.
    fn original(&self, range: Range<usize>) -> Range<usize> {
        let original = |position: usize| {
            let before = self.breaks.partition_point(|(at, _)| *at <= position);
            position + before.checked_sub(1).map_or(0, |last| self.breaks[last].1)
        };
        original(range.start)..original(range.end - 1) + 1
    }
}

const PREFIX_BITS: u32 = 14;

/// A hash of the first three bytes.
fn prefix_hash(text: &[u8]) -> usize {
    let first = text.iter().take(3).fold(0_u32, |first, byte| first << 8 | u32::from(*byte));
    (first.wrapping_mul(0x9E37_79B1) >> (u32::BITS - PREFIX_BITS)) as usize
}

/// A secret verbatim and in every encoding that is redacted.
fn needles(secret: &str) -> impl Iterator<Item = Needle> {
    let needle = |is_wrapped| move |form| Needle { form, is_wrapped };
    let wrapped = wrapped_forms(secret.as_bytes()).into_iter().map(needle(true));
    inline_forms(secret).into_iter().map(needle(false)).chain(wrapped)
}

fn inline_forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let mut forms: Vec<Vec<u8>> = vec![
        bytes.to_vec(),
        bytes.iter().rev().copied().collect(),
        secret.chars().rev().collect::<String>().into_bytes(),
    ];
    for digits in [LOWER, UPPER] {
        forms.extend(PERCENT_ENCODERS.map(|encoder| encoder.encode(bytes, digits)));
    }
    forms.extend(json_forms(secret).map(String::into_bytes));
    forms
}

/// Hex and base64, which programs write in lines of equal length.
fn wrapped_forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for digits in [LOWER, UPPER] {
        forms.push(bytes.iter().flat_map(|byte| hex(*byte, digits)).collect());
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        forms.extend((0..3).flat_map(|offset| base64_forms(bytes, offset, &engine)));
    }
    forms
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// A way to percent-encode a text.
struct PercentEncoder {
    /// Kept besides letters and digits; `None` if every byte is encoded.
    kept: Option<&'static [u8]>,
    /// Forms write a space as `+`.
    space_is_plus: bool,
}

/// Every byte, the unreserved characters of RFC 3986, `encodeURIComponent`, Python's `quote` and `quote_plus`, `URLSearchParams`.
const PERCENT_ENCODERS: [PercentEncoder; 6] = [
    PercentEncoder { kept: None, space_is_plus: false },
    PercentEncoder { kept: Some(b"-._~"), space_is_plus: false },
    PercentEncoder { kept: Some(b"-._~!'()*"), space_is_plus: false },
    PercentEncoder { kept: Some(b"-._~/"), space_is_plus: false },
    PercentEncoder { kept: Some(b"-._~"), space_is_plus: true },
    PercentEncoder { kept: Some(b"-._*"), space_is_plus: true },
];

impl PercentEncoder {
    fn encode(&self, bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
        let mut encoded = Vec::new();
        for byte in bytes {
            match self.kept {
                Some(kept) if byte.is_ascii_alphanumeric() || kept.contains(byte) => encoded.push(*byte),
                _ if self.space_is_plus && *byte == b' ' => encoded.push(b'+'),
                _ => {
                    encoded.push(b'%');
                    encoded.extend(hex(*byte, digits));
                }
            }
        }
        encoded
    }
}

/// The characters of base64 that depend on the secret alone if `offset` other bytes are before it in its group of three: without what
/// follows, and at the end of the data with and without padding.
fn base64_forms(bytes: &[u8], offset: usize, engine: &impl Engine) -> Vec<Vec<u8>> {
    let encoded = engine.encode([&[0; 2][..offset], bytes].concat()).into_bytes();
    let first = (offset * 8).div_ceil(6);
    let complete = (offset + bytes.len()) * 8 / 6;
    let inner = encoded[first..complete].to_vec();
    let last = encoded[first..].to_vec();
    let padded = [&last[..], &b"=="[..(4 - encoded.len() % 4) % 4]].concat();
    vec![inner, last, padded]
}

/// The secret inside a JSON string, as common encoders write it.
fn json_forms(secret: &str) -> [String; 4] {
    let quoted = serde_json::Value::from(secret).to_string();
    let plain = quoted[1..quoted.len() - 1].to_owned();
    let slashes = plain.replace('/', "\\/");
    let html = escape_units(&plain, |char| matches!(char, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'));
    let ascii = escape_units(&plain, |char| !char.is_ascii());
    [plain, slashes, html, ascii]
}

/// Replaces characters by `\uXXXX`.
fn escape_units(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if is_escaped(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(char);
        }
    }
    escaped
}
