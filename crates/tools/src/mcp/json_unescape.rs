//! Unescaping of a JSON string that arrives in chunks.

/// The state between two chunks.
#[derive(Debug, Default)]
pub(super) struct JsonUnescaper {
    state: EscapeState,
    /// A high surrogate that waits for its low surrogate.
    high: Option<u16>,
}

#[derive(Debug, Default, Clone, Copy)]
enum EscapeState {
    #[default]
    Plain,
    Escape,
    /// Inside `\uXXXX`: the number of digits so far, and their value.
    Digits(u8, u16),
}

impl JsonUnescaper {
    /// Unescapes the next chunk. Invalid escapes stay as they are.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(chunk.len());
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            let plain = self.plain_length(rest);
            if plain > 0 {
                text.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            rest = after;
            self.state = match (self.state, byte) {
                (EscapeState::Plain, b'\\') => EscapeState::Escape,
                (EscapeState::Escape, b'u') => EscapeState::Digits(0, 0),
                (EscapeState::Plain, other) => self.plain(other, &mut text),
                (EscapeState::Escape, letter) => self.plain(unescape_letter(letter), &mut text),
                (EscapeState::Digits(count, value), digit) => self.digit((count, value), digit, &mut text),
            };
        }
        text
    }

    /// Length of the prefix without escapes.
    fn plain_length(&self, bytes: &[u8]) -> usize {
        match (self.state, self.high) {
            (EscapeState::Plain, None) => bytes.iter().position(|&byte| byte == b'\\').unwrap_or(bytes.len()),
            (EscapeState::Plain | EscapeState::Escape | EscapeState::Digits(..), _) => 0,
        }
    }

    fn plain(&mut self, byte: u8, text: &mut Vec<u8>) -> EscapeState {
        if self.high.take().is_some() {
            push(char::REPLACEMENT_CHARACTER, text);
        }
        text.push(byte);
        EscapeState::Plain
    }

    fn digit(&mut self, (count, value): (u8, u16), digit: u8, text: &mut Vec<u8>) -> EscapeState {
        let digit = char::from(digit).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
        let value = (value << 4) | digit.unwrap_or_default();
        if count < 3 {
            return EscapeState::Digits(count + 1, value);
        }
        let units = [self.high.take(), Some(value)].into_iter().flatten();
        for read in char::decode_utf16(units) {
            match read {
                Ok(char) => push(char, text),
                Err(half) if half.unpaired_surrogate() == value && is_high_surrogate(value) => {
                    self.high = Some(value);
                }
                Err(_) => push(char::REPLACEMENT_CHARACTER, text),
            }
        }
        EscapeState::Plain
    }
}

fn is_high_surrogate(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn unescape_letter(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        other => other,
    }
}

fn push(char: char, text: &mut Vec<u8>) {
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn unescape(chunks: &[&str]) -> String {
        let mut unescaper = JsonUnescaper::default();
        let text = chunks.iter().flat_map(|chunk| unescaper.push(chunk.as_bytes())).collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn surrogate_pair_may_be_split_and_unpaired_surrogates_are_replaced() {
        assert_eq!(unescape(&["\\ud83e", "\\udd80!"]), "🦀!");
        assert_eq!(unescape(&["\\ud83ex", "\\udd80", "\\ud83e\\n"]), "\u{fffd}x\u{fffd}\u{fffd}\n");
    }

    /// The same JSON string with all non-ASCII characters escaped.
    fn ascii(written: &str) -> String {
        let mut ascii = String::new();
        for c in written.chars() {
            if c.is_ascii() {
                ascii.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(ascii, "\\u{unit:04x}").unwrap();
                }
            }
        }
        ascii
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
        #[test]
        fn split_string_is_unescaped_like_by_a_json_parser(text in "\\PC{0,20}[\\n\\t\"\\\\/\u{8}\u{c}\u{1f980}é]{0,10}", cut in 0_usize..40) {
            let written = serde_json::to_string(&text).unwrap();
            let ascii = ascii(&written);
            let inner = &ascii[1..ascii.len() - 1];
            let (first, rest) = inner.split_at(cut.min(inner.len()));
            proptest::prop_assert_eq!(unescape(&[first, rest]), text);
        }
    }
}
