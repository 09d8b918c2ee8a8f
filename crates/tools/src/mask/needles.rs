//! The forms of a secret that are searched for: verbatim, reversed, hex, base64, percent-encoded and JSON-escaped.
//!
//! The needles are computed once and searched for together, in one pass.

use std::{fmt::Write as _, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::MIN_SECRET;

pub(super) struct Needles {
    /// Sorted.
    all: Vec<Vec<u8>>,
    longest: usize,
    /// Hash set of the first three bytes of needles: most ends of a text are no prefix of a needle.
    prefixes: Vec<bool>,
    search: AhoCorasick,
}

impl Needles {
    /// `None` if the needles exceed the limits of the search.
    pub(super) fn compile(secrets: &[String]) -> Option<Self> {
        let mut all: Vec<Vec<u8>> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        all.retain(|needle| needle.len() >= MIN_SECRET);
        all.sort();
        all.dedup();
        let search = AhoCorasick::builder()
            // The longest: a needle wins over its own prefix.
            .match_kind(MatchKind::LeftmostLongest)
            // A DFA of a long key would need tens of megabytes.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&all)
            .ok()?;
        let mut prefixes = vec![false; 1 << PREFIX_BITS];
        for needle in &all {
            prefixes[prefix_hash(needle)] = true;
        }
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        Some(Self { all, longest, prefixes, search })
    }

    pub(super) fn find_all(&self, text: &[u8]) -> impl Iterator<Item = Range<usize>> {
        self.search.find_iter(text).map(|found| found.range())
    }

    /// Length of the longest end of `text` that a needle begins with and continues.
    pub(super) fn partial_suffix(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let is_partial = |suffix: &[u8]| {
            // The smallest needle after `suffix` continues it if any does.
            let after = self.all.partition_point(|needle| needle.as_slice() <= suffix);
            self.all.get(after).is_some_and(|needle| needle.starts_with(suffix))
        };
        let begins = |start: &usize| {
            let suffix = &text[*start..];
            (suffix.len() < 3 || self.prefixes[prefix_hash(suffix)]) && is_partial(suffix)
        };
        (first..text.len()).find(begins).map_or(0, |start| text.len() - start)
    }
}

const PREFIX_BITS: u32 = 14;

/// A hash of the first three bytes.
fn prefix_hash(text: &[u8]) -> usize {
    let first = text.iter().take(3).fold(0_u32, |first, byte| first << 8 | u32::from(*byte));
    (first.wrapping_mul(0x9E37_79B1) >> (u32::BITS - PREFIX_BITS)) as usize
}

/// A secret verbatim and in every encoding that is redacted.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let mut forms: Vec<Vec<u8>> = vec![
        bytes.to_vec(),
        bytes.iter().rev().copied().collect(),
        secret.chars().rev().collect::<String>().into_bytes(),
    ];
    for digits in [LOWER, UPPER] {
        forms.push(bytes.iter().flat_map(|byte| hex(*byte, digits)).collect());
        forms.extend(KEPT.map(|kept| percent_encoded(bytes, kept, digits)));
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        forms.extend((0..3).flat_map(|offset| base64_forms(bytes, offset, &engine)));
    }
    forms.extend(json_forms(secret).map(String::into_bytes));
    forms
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// Character sets that percent-encoders keep: none, the unreserved of RFC 3986, those of `encodeURIComponent`, and of Python's `quote`.
const KEPT: [Option<&[u8]>; 4] = [None, Some(b"-._~"), Some(b"-._~!'()*"), Some(b"-._~/")];

fn percent_encoded(bytes: &[u8], kept: Option<&[u8]>, digits: &[u8; 16]) -> Vec<u8> {
    let is_kept = |byte: u8| kept.is_some_and(|kept| byte.is_ascii_alphanumeric() || kept.contains(&byte));
    let mut encoded = Vec::new();
    for byte in bytes {
        if is_kept(*byte) {
            encoded.push(*byte);
        } else {
            encoded.push(b'%');
            encoded.extend(hex(*byte, digits));
        }
    }
    encoded
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
