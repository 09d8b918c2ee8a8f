//! Program output as plain text: terminal control sequences are removed or made visible.

/// Converts `bytes` to plain text. ANSI escape sequences are dropped, other control characters are written as `^X`, and
/// bidirectional and zero-width characters as `\u{…}`. A carriage return that is not part of CRLF becomes a line break.
pub(crate) fn to_plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.starts_with('\n') => {}
            '\r' => out.push('\n'),
            '\u{1b}' => match escape_sequence_length(rest) {
                Some(length) => rest = &rest[length..],
                None => out.push_str("^["),
            },
            c if c.is_ascii_control() => out.extend(['^', char::from((c as u8) ^ 0x40)]),
            c if c.is_control() || is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Length of the escape sequence that follows an ESC character, if it is a complete one.
fn escape_sequence_length(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    match bytes.first()? {
        b'[' => {
            let end = bytes.iter().skip(1).position(|byte| !(0x20..=0x3f).contains(byte))? + 1;
            (0x40..=0x7e).contains(&bytes[end]).then_some(end + 1)
        }
        // A control string (OSC, DCS, SOS, PM, APC) ends with BEL or ST. An unterminated one is not a sequence.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = after.find(['\u{7}', '\u{1b}', '\n'])?;
            match bytes[end] {
                0x07 => Some(end + 1),
                0x1b if bytes.get(end + 1) == Some(&b'\\') => Some(end + 2),
                _ => None,
            }
        }
        0x20..=0x2f => (0x30..=0x7e).contains(bytes.get(1)?).then_some(2),
        0x30..=0x7e => Some(1),
        _ => None,
    }
}

/// Bidirectional controls and invisible characters. Tags and variation selectors of the last plane can spell a text that only
/// a model reads.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_are_removed_or_made_visible() {
        let rows: [(&[u8], &str); 15] = [
            ("a\u{e0041}b\u{e0101}".as_bytes(), "a\\u{e0041}b\\u{e0101}"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b]52;c;cm0gLXJmIC8=\x07", ""),
            (b"\x1bPq#0\x1b\\x", "x"),
            (b"\x1b(Bx\x1bcx", "xx"),
            (b"10%\r20%\r\nend", "10%\n20%\nend"),
            (b"a\x08\x07\x7fb", "a^H^G^?b"),
            (b"\x1b", "^["),
            (b"\x1b[", "^[["),
            (b"\x1b]never ends\nnext", "^[]never ends\nnext"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
            ("grüße 日本\t🙂".as_bytes(), "grüße 日本\t🙂"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(to_plain_text(bytes), expected);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_control_character_but_newline_and_tab_remains(bytes: Vec<u8>) {
            let text = to_plain_text(&bytes);
            proptest::prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{text:?}");
        }
    }
}
