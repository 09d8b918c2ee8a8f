//! Character encodings: which one a file or page is written in, and its text in UTF-8.
//!
//! **Invariant.** The encoding is decided before data is called binary, so a text in any encoding of the Web is text.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::media;

/// How much of a file the detection of its encoding needs.
pub(crate) const SAMPLE_BYTES: usize = 64 * 1024;
/// How many bytes before the first byte that is not ASCII are given to the detector.
const CONTEXT_BYTES: usize = 1024;
/// Where a page names its encoding. Browsers read 1024 bytes; some pages have long scripts before it.
const PRESCAN_BYTES: usize = 4096;

/// What a sample of bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleKind {
    Text(&'static Encoding),
    /// Not text; the kind of data.
    Binary(&'static str),
}

/// The encoding of a file that begins with `sample`, or the kind of its binary data.
pub(crate) fn detect(sample: &[u8]) -> SampleKind {
    detect_with_domain(sample, None)
}

/// Decodes text and drops its byte order mark.
pub(crate) fn decode<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> Cow<'a, str> {
    encoding.decode_with_bom_removal(bytes).0
}

/// What is known about the encoding of a page besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageHints<'a> {
    /// The header `Content-Type`.
    pub(crate) content_type: &'a str,
    /// The top level domain, which tells the detector the likely languages.
    pub(crate) domain: Option<&'a str>,
}

/// The encoding of a page: by its byte order mark, the header, its own declaration, or its bytes.
pub(crate) fn detect_page(body: &[u8], hints: PageHints<'_>) -> SampleKind {
    if let Some(kind) = media::magic(body) {
        return SampleKind::Binary(kind);
    }
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return SampleKind::Text(encoding);
    }
    let head = &body[..body.len().min(PRESCAN_BYTES)];
    let named = [label_in_header(hints.content_type), label_in_page(head)];
    let named = named.into_iter().flatten().find(|encoding| is_credible(body, encoding));
    match named {
        Some(encoding) => SampleKind::Text(encoding),
        None => detect_with_domain(&body[..body.len().min(SAMPLE_BYTES)], hints.domain),
    }
}

/// Whether a page may be in the encoding that it names. UTF-8 is named by default in many servers, also for other pages.
fn is_credible(body: &[u8], encoding: &'static Encoding) -> bool {
    if encoding == UTF_8 {
        return !has_nul(body) && is_mostly_utf8(body);
    }
    encoding == UTF_16LE || encoding == UTF_16BE || !has_nul(body)
}

/// Whether the beginning has a zero byte. A file that is being written may end with many.
fn has_nul(body: &[u8]) -> bool {
    body[..body.len().min(media::SNIFF_BYTES)].contains(&0)
}

fn detect_with_domain(sample: &[u8], domain: Option<&str>) -> SampleKind {
    if let Some(kind) = media::magic(sample) {
        return SampleKind::Binary(kind);
    }
    if let Some((encoding, _)) = Encoding::for_bom(sample) {
        return SampleKind::Text(encoding);
    }
    if let Some(encoding) = utf16_without_mark(sample) {
        return SampleKind::Text(encoding);
    }
    if has_nul(sample) {
        return SampleKind::Binary("binary data");
    }
    // A log with escape sequences is text.
    if is_mostly_utf8(sample) {
        return SampleKind::Text(UTF_8);
    }
    if has_many_controls(&sample[..sample.len().min(media::SNIFF_BYTES)]) {
        return SampleKind::Binary("binary data");
    }
    let start = sample.iter().position(|byte| !byte.is_ascii()).unwrap_or(0).saturating_sub(CONTEXT_BYTES);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&sample[start..], true);
    let domain = domain.filter(|domain| domain.bytes().all(|byte| byte.is_ascii_lowercase()));
    let encoding = detector.guess(domain.map(str::as_bytes), Utf8Detection::Allow);
    if is_plausible(&encoding.decode_without_bom_handling(sample).0) {
        SampleKind::Text(encoding)
    } else {
        SampleKind::Binary("binary data")
    }
}

/// Recognises UTF-16 without a byte order mark by the zero bytes of its Latin letters, digits and spaces.
fn utf16_without_mark(sample: &[u8]) -> Option<&'static Encoding> {
    let pairs = sample.len() / 2;
    let zeros = |odd: usize| sample.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
    let (high_first, low_first) = (zeros(0), zeros(1));
    let encoding = match (high_first, low_first) {
        (0, low) if pairs >= 4 && low * 4 >= pairs => UTF_16LE,
        (high, 0) if pairs >= 4 && high * 4 >= pairs => UTF_16BE,
        _ => return None,
    };
    let text = encoding.decode_without_bom_handling(&sample[..pairs * 2]).0;
    let is_text = |c: char| !c.is_control() || c.is_ascii_whitespace();
    text.chars().all(is_text).then_some(encoding)
}

/// Whether control characters that no text has are more than a few. Terminal output has some; random data has one in ten bytes.
fn has_many_controls(sample: &[u8]) -> bool {
    let is_unusual = |byte: &&u8| matches!(**byte, 0..=7 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let count = sample.iter().filter(is_unusual).count();
    count > 4 && count * 20 > sample.len()
}

/// Whether the bytes are UTF-8, perhaps with some invalid bytes or a character that is cut at the end.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut valid, mut invalid) = (0, 0);
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        valid += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
        // After text without other characters, a lone byte is a letter of an older encoding.
        let may_be_cut = chunks.peek().is_none() && valid > 0;
        let is_cut = may_be_cut
            && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
        invalid += usize::from(!chunk.invalid().is_empty() && !is_cut);
    }
    invalid == 0 || valid >= invalid * 4
}

/// Whether decoded text looks like one: nearly no replacement or control characters, and letters where it is not ASCII.
fn is_plausible(text: &str) -> bool {
    let (mut all, mut foreign, mut letters, mut wrong) = (0_usize, 0_usize, 0_usize, 0_usize);
    for c in text.chars() {
        all += 1;
        foreign += usize::from(!c.is_ascii());
        letters += usize::from(!c.is_ascii() && c.is_alphabetic());
        wrong += usize::from(c == '\u{fffd}' || ('\u{80}'..='\u{9f}').contains(&c));
    }
    // The end of a sample may cut a character.
    wrong * 50 <= all.max(50) && (foreign * 4 <= all || letters * 5 >= foreign * 3)
}

/// The charset of a `Content-Type`.
fn label_in_header(content_type: &str) -> Option<&'static Encoding> {
    let parameters = content_type.split(';').skip(1);
    let charset = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, label) = charset.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// The encoding that a page declares: `<meta charset>`, `<meta http-equiv content>` or an XML declaration.
fn label_in_page(head: &[u8]) -> Option<&'static Encoding> {
    let head: String = head.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let declaration = head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split("?>").next());
    let mut metas = head.split("<meta").skip(1).filter_map(|rest| rest.split('>').next());
    let label = declaration.and_then(|xml| value_after(xml, "encoding"));
    let label = label.or_else(|| metas.find_map(|meta| value_after(meta, "charset")))?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // The declaration was read as ASCII, so the page is not in UTF-16.
    let is_wide = encoding == UTF_16LE || encoding == UTF_16BE;
    Some(if is_wide { UTF_8 } else { encoding })
}

fn value_after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(name)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| c.is_whitespace() || "\"';/".contains(c)).unwrap_or(value.len());
    Some(&value[..end])
}

#[cfg(test)]
mod tests;
