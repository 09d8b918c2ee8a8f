//! A JSON string as the text that it means, in pieces that may be cut anywhere.

/// What was begun and not ended by the pieces so far.
#[derive(Debug, Default)]
pub(super) struct Unescape {
    place: Place,
    /// The first half of a character that is written in two.
    high: Option<u16>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Plain,
    Escape,
    /// So many digits of so great a number.
    Digits(u8, u16),
}

impl Unescape {
    /// What the next piece means. What is no escape means itself.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(piece.len());
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            let plain = self.plain_length(rest);
            if plain > 0 {
                text.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            rest = after;
            self.place = match (self.place, byte) {
                (Place::Plain, b'\\') => Place::Escape,
                (Place::Escape, b'u') => Place::Digits(0, 0),
                (Place::Plain, other) => self.plain(other, &mut text),
                (Place::Escape, letter) => self.plain(meant(letter), &mut text),
                (Place::Digits(count, value), digit) => self.digit((count, value), digit, &mut text),
            };
        }
        text
    }

    /// How many bytes mean themselves.
    fn plain_length(&self, bytes: &[u8]) -> usize {
        match (self.place, self.high) {
            (Place::Plain, None) => bytes.iter().position(|&byte| byte == b'\\').unwrap_or(bytes.len()),
            (Place::Plain | Place::Escape | Place::Digits(..), _) => 0,
        }
    }

    fn plain(&mut self, byte: u8, text: &mut Vec<u8>) -> Place {
        if self.high.take().is_some() {
            push(char::REPLACEMENT_CHARACTER, text);
        }
        text.push(byte);
        Place::Plain
    }

    fn digit(&mut self, (count, value): (u8, u16), digit: u8, text: &mut Vec<u8>) -> Place {
        let digit = char::from(digit).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
        let value = (value << 4) | digit.unwrap_or_default();
        if count < 3 {
            return Place::Digits(count + 1, value);
        }
        let units = [self.high.take(), Some(value)].into_iter().flatten();
        for read in char::decode_utf16(units) {
            match read {
                Ok(char) => push(char, text),
                Err(half) if half.unpaired_surrogate() == value && is_first_half(value) => {
                    self.high = Some(value);
                }
                Err(_) => push(char::REPLACEMENT_CHARACTER, text),
            }
        }
        Place::Plain
    }
}

fn is_first_half(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn meant(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        itself => itself,
    }
}

fn push(char: char, text: &mut Vec<u8>) {
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn meaning(pieces: &[&str]) -> String {
        let mut unescape = Unescape::default();
        let text = pieces.iter().flat_map(|piece| unescape.take(piece.as_bytes())).collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_half_of_a_character_is_waited_for_and_never_made_up() {
        assert_eq!(meaning(&["\\ud83e", "\\udd80!"]), "🦀!");
        assert_eq!(meaning(&["\\ud83ex", "\\udd80", "\\ud83e\\n"]), "\u{fffd}x\u{fffd}\u{fffd}\n");
    }

    /// The same string, with an escape for each character that needs one anywhere.
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
        fn a_string_means_what_it_means_to_a_parser_wherever_it_is_cut(text in "\\PC{0,20}[\\n\\t\"\\\\/\u{8}\u{c}\u{1f980}é]{0,10}", cut in 0_usize..40) {
            let written = serde_json::to_string(&text).unwrap();
            let ascii = ascii(&written);
            let inner = &ascii[1..ascii.len() - 1];
            let (first, rest) = inner.split_at(cut.min(inner.len()));
            proptest::prop_assert_eq!(meaning(&[first, rest]), text);
        }
    }
}
