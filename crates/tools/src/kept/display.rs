//! Output of programs as plain text: what would steer a terminal is taken out or made visible.

/// The text of `bytes`. Colours and other terminal sequences are dropped, control characters are written as `^X`, and
/// characters that turn or hide text as their numbers. A carriage return that is not part of a line's end begins a line.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.starts_with('\n') => {}
            '\r' => out.push('\n'),
            '\u{1b}' => match sequence(rest) {
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

/// How long the sequence after an escape character is.
fn sequence(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    match bytes.first()? {
        b'[' => {
            let end = bytes.iter().skip(1).position(|byte| !(0x20..=0x3f).contains(byte))? + 1;
            (0x40..=0x7e).contains(&bytes[end]).then_some(end + 1)
        }
        // A string for the terminal, up to a bell or its own end. One that never ends is no sequence.
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

/// Characters that reorder what is around them, or cannot be seen.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_does_not_get_through() {
        let rows: [(&[u8], &str); 14] = [
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
        for (bytes, shown) in rows {
            assert_eq!(plain(bytes), shown);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_control_character_gets_through(bytes: Vec<u8>) {
            let text = plain(&bytes);
            proptest::prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{text:?}");
        }
    }
}
