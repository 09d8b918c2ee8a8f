//! The filter of a stream of bytes: text of which a person would not see a part is shown as escapes.

use axum::body::Bytes;
use std::str;
use visible_text::{Shown, classify, depends_on_next};

/// The syntax around the text. An escape such as `<U+200B>` needs no escaping in JSON strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextSyntax {
    /// JSON values, also in the `data:` lines of a stream of events.
    Json,
    Html,
    Plain,
}

/// Changes the chunks of a response. A character, an escape sequence or a pair of them may be split over chunks.
#[derive(Debug)]
pub(super) struct VisibleFilter {
    syntax: TextSyntax,
    /// The character before the next one in the same text.
    previous: Option<char>,
    /// The end of the last chunk, if what follows decides how it is shown.
    held: Vec<u8>,
}

/// A unit of the input.
#[derive(Clone, Copy)]
struct Token {
    length: usize,
    /// `None` for the quote that begins or ends a JSON string.
    char: Option<char>,
}

impl Token {
    fn of(length: usize, char: char) -> Self {
        Self { length, char: Some(char) }
    }
}

impl VisibleFilter {
    pub(super) fn new(syntax: TextSyntax) -> Self {
        Self { syntax, previous: None, held: Vec::new() }
    }

    /// Whether a chunk is certainly sent as it is. Most are: ASCII without escapes and control characters.
    pub(super) fn passes(&mut self, chunk: &[u8]) -> bool {
        let is_json = self.syntax == TextSyntax::Json;
        let is_plain = |byte: &u8| {
            (b' '..0x7f).contains(byte) && !(is_json && *byte == b'\\') || b"\n\r\t".contains(byte)
        };
        let passes = self.held.is_empty() && chunk.iter().all(is_plain);
        if let (true, Some(last)) = (passes, chunk.last()) {
            self.previous = Some(char::from(*last)).filter(|last| !(is_json && *last == '"'));
        }
        passes
    }

    /// The bytes to send for a chunk. The same bytes are returned if nothing changes.
    pub(super) fn push(&mut self, chunk: Bytes) -> Bytes {
        if self.passes(&chunk) {
            return chunk;
        }
        let chunk = if self.held.is_empty() {
            chunk
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(&chunk);
            joined.into()
        };
        let (changed, end) = self.rewrite(&chunk, false);
        self.held = chunk[end..].to_vec();
        changed.map_or_else(|| chunk.slice(..end), Bytes::from)
    }

    /// The rest, after the last chunk.
    pub(super) fn finish(&mut self) -> Bytes {
        let rest = std::mem::take(&mut self.held);
        self.rewrite(&rest, true).0.unwrap_or(rest).into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Rewrites the input up to the returned position, from which more input is needed. `None` if nothing changes.
    fn rewrite(&mut self, input: &[u8], is_last: bool) -> (Option<Vec<u8>>, usize) {
        let mut out: Option<Vec<u8>> = None;
        let (mut position, mut copied) = (0, 0);
        while position < input.len() {
            let Some(token) = self.token(&input[position..], is_last) else { break };
            let Some((shown, c)) = self.decide(token, &input[position + token.length..], is_last) else {
                break;
            };
            if shown != Shown::Unchanged {
                let out = out.get_or_insert_with(|| Vec::with_capacity(2 * input.len()));
                out.extend_from_slice(&input[copied..position]);
                out.extend_from_slice(self.written(shown, c).as_bytes());
                copied = position + token.length;
            }
            self.previous = token.char;
            position += token.length;
        }
        if let Some(out) = &mut out {
            out.extend_from_slice(&input[copied..position]);
        }
        (out, position)
    }

    /// How a token is shown; `None` if that depends on input that has not arrived.
    fn decide(&self, token: Token, after: &[u8], is_last: bool) -> Option<(Shown, char)> {
        let Some(c) = token.char else { return Some((Shown::Unchanged, '"')) };
        let next = if depends_on_next(c) && !(is_last && after.is_empty()) {
            self.token(after, is_last)?.char
        } else {
            None
        };
        Some((Shown::decide(self.previous, c, next), c))
    }

    fn written(&self, shown: Shown, c: char) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = shown.write(c, &mut text);
        if self.syntax == TextSyntax::Html { text.replace('<', "&lt;").replace('>', "&gt;") } else { text }
    }

    /// The first token; `None` if it is incomplete. Bytes that are neither UTF-8 nor a known escape are tokens of one byte.
    fn token(&self, input: &[u8], is_last: bool) -> Option<Token> {
        match *input.first()? {
            b'\\' if self.syntax == TextSyntax::Json => match json_escape(input) {
                None if is_last => Some(Token::of(1, '\\')),
                token => token,
            },
            b'"' if self.syntax == TextSyntax::Json => Some(Token { length: 1, char: None }),
            byte if byte.is_ascii() => Some(Token::of(1, char::from(byte))),
            _ => match utf8_char(input) {
                None if is_last => Some(Token::of(1, char::REPLACEMENT_CHARACTER)),
                token => token,
            },
        }
    }
}

/// An escape sequence of JSON. Two `\u` sequences that are a surrogate pair are one token.
fn json_escape(input: &[u8]) -> Option<Token> {
    let short = |c| Some(Token::of(2, c));
    match *input.get(1)? {
        b'u' => unicode_escape(input),
        b'b' => short('\u{8}'),
        b'f' => short('\u{c}'),
        b'n' => short('\n'),
        b'r' => short('\r'),
        b't' => short('\t'),
        other => short(char::from(other)),
    }
}

fn unicode_escape(input: &[u8]) -> Option<Token> {
    const LENGTH: usize = 6;
    let invalid = Token::of(2, char::REPLACEMENT_CHARACTER);
    let Some(unit) = hex_digits(input.get(2..LENGTH)?) else { return Some(invalid) };
    if let Some(c) = char::from_u32(unit) {
        return Some(Token::of(LENGTH, c));
    }
    let lone = Token::of(LENGTH, char::REPLACEMENT_CHARACTER);
    let is_high = unit < 0xdc00;
    let rest = &input[LENGTH..];
    if !is_high || !b"\\u".starts_with(&rest[..rest.len().min(2)]) {
        return Some(lone);
    }
    let Some(low @ 0xdc00..=0xdfff) = hex_digits(rest.get(2..LENGTH)?) else { return Some(lone) };
    let pair = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    Some(char::from_u32(pair).map_or(lone, |c| Token::of(2 * LENGTH, c)))
}

fn hex_digits(digits: &[u8]) -> Option<u32> {
    let digits =
        str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// The first character of a text in UTF-8; `None` if more bytes are needed.
fn utf8_char(input: &[u8]) -> Option<Token> {
    let head = &input[..input.len().min(4)];
    let (valid, error) = match str::from_utf8(head) {
        Ok(valid) => (valid, None),
        Err(error) => (str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(), error.error_len()),
    };
    match (valid.chars().next(), error) {
        (Some(c), _) => Some(Token::of(c.len_utf8(), c)),
        (None, Some(_)) => Some(Token::of(1, char::REPLACEMENT_CHARACTER)),
        (None, None) => None,
    }
}

/// A text as it is shown; `None` if nothing changes.
pub(crate) fn visible_text(text: &str) -> Option<String> {
    if classify(text).all(|(_, shown)| shown == Shown::Unchanged) {
        return None;
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for (c, shown) in classify(text) {
        // Writing to a String does not fail.
        let _ = shown.write(c, &mut visible);
    }
    Some(visible)
}

#[cfg(test)]
mod tests;
