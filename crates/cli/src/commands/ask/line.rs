//! One line that a person types at a question, with pasted text told apart from typed text.

/// The longest line. What is typed beyond it is ignored.
const MAX_LINE: usize = 4_096;

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const ESCAPE: u8 = 27;
const DELETE: u8 = 127;

/// The sequences that a terminal puts around pasted text in bracketed paste mode.
const PASTE_BEGIN: &[u8] = b"200~";
const PASTE_END: &[u8] = b"201~";

/// A line that was ended with Enter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypedLine {
    pub(super) text: String,
    /// Whether a part of it was pasted, and Enter was typed.
    pub(super) is_pasted: bool,
    /// Whether more input followed at once, so that Enter was pasted, too.
    pub(super) is_burst: bool,
}

/// What a byte of input leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineStep {
    /// The text to be echoed.
    Echo(String),
    Done(TypedLine),
    /// Ctrl-C or Ctrl-D.
    Cancelled,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    None,
    Started,
    /// The parameters of a CSI sequence so far.
    Csi(Vec<u8>),
}

/// Collects the bytes of a line.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    bytes: Vec<u8>,
    escape: EscapeState,
    in_paste: bool,
    is_pasted: bool,
}

impl LineReader {
    pub(super) fn push(&mut self, byte: u8) -> LineStep {
        let nothing = LineStep::Echo(String::new());
        if self.skip_escape(byte) {
            return nothing;
        }
        match byte {
            b'\r' | b'\n' if !self.in_paste => LineStep::Done(TypedLine {
                text: String::from_utf8_lossy(&self.bytes).into_owned(),
                is_pasted: self.is_pasted,
                is_burst: false,
            }),
            // Line ends and tabs inside a paste are text.
            b'\r' | b'\n' | b'\t' => self.append(b' '),
            CTRL_C | CTRL_D if !self.in_paste => LineStep::Cancelled,
            BACKSPACE | DELETE => self.erase(1),
            CTRL_U => self.erase(usize::MAX),
            byte if byte < b' ' => nothing,
            byte => self.append(byte),
        }
    }

    /// Consumes the bytes of an escape sequence, such as that of a cursor key.
    fn skip_escape(&mut self, byte: u8) -> bool {
        match (&mut self.escape, byte) {
            (EscapeState::None, ESCAPE) => self.escape = EscapeState::Started,
            (EscapeState::None, _) => return false,
            (EscapeState::Started, b'[' | b'O') => self.escape = EscapeState::Csi(Vec::new()),
            (EscapeState::Started, ESCAPE) => {}
            (EscapeState::Started, _) => self.escape = EscapeState::None,
            (EscapeState::Csi(parameters), byte) => {
                parameters.push(byte);
                let is_final = (0x40..=0x7e).contains(&byte);
                if is_final || parameters.len() > 16 {
                    self.in_paste = match parameters.as_slice() {
                        PASTE_BEGIN => true,
                        PASTE_END => false,
                        _ => self.in_paste,
                    };
                    self.is_pasted |= self.in_paste;
                    self.escape = EscapeState::None;
                }
            }
        }
        true
    }

    /// Adds a byte, and echoes the character that it completes.
    fn append(&mut self, byte: u8) -> LineStep {
        if self.bytes.len() >= MAX_LINE {
            return LineStep::Echo(String::new());
        }
        self.bytes.push(byte);
        let start = self.last_character();
        let echo = match std::str::from_utf8(&self.bytes[start..]) {
            Ok(text) => crate::screen::printable(text),
            Err(error) if error.error_len().is_none() => String::new(),
            Err(_) => char::REPLACEMENT_CHARACTER.to_string(),
        };
        LineStep::Echo(echo)
    }

    /// The index of the first byte of the last character.
    fn last_character(&self) -> usize {
        let is_start = |byte: &u8| byte & 0xc0 != 0x80;
        self.bytes.iter().rposition(is_start).unwrap_or_default()
    }

    fn erase(&mut self, count: usize) -> LineStep {
        let mut echo = String::new();
        for _ in 0..count {
            if self.bytes.is_empty() {
                break;
            }
            let start = self.last_character();
            let shown = crate::screen::printable(&String::from_utf8_lossy(&self.bytes[start..]));
            echo += &"\u{8} \u{8}".repeat(shown.chars().count());
            self.bytes.truncate(start);
        }
        self.is_pasted &= !self.bytes.is_empty();
        LineStep::Echo(echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The echo of the input, and the line that it ends with.
    fn read(input: &[u8]) -> (String, Option<LineStep>) {
        let mut reader = LineReader::default();
        let mut echo = String::new();
        for byte in input {
            match reader.push(*byte) {
                LineStep::Echo(text) => echo += &text,
                end => return (echo, Some(end)),
            }
        }
        (echo, None)
    }

    /// Checks that the input is a line with this text.
    #[track_caller]
    fn assert_line(input: &[u8], text: &str, is_pasted: bool) {
        let line = TypedLine { text: text.to_owned(), is_pasted, is_burst: false };
        assert_eq!(read(input).1, Some(LineStep::Done(line)));
    }

    #[test]
    fn typed_line_ends_with_enter() {
        assert_eq!(read(b"y\r").0, "y");
        assert_line(b"y\r", "y", false);
        assert_eq!(read("n\u{e4}\n".as_bytes()).0, "n\u{e4}");
        assert_line("n\u{e4}\n".as_bytes(), "n\u{e4}", false);
        assert_line(b"ab\x7f\x7fy\r", "y", false);
        assert_line(b"no\x15y\r", "y", false);
        assert_eq!(read(b"y").1, None);
    }

    #[test]
    fn control_keys_and_escape_sequences_are_no_text() {
        assert_line(b"\x1b[A\x1b[1;5C\x1bOP\x1byy\r", "y", false);
        for key in [CTRL_C, CTRL_D] {
            assert_eq!(read(&[b'y', key]).1, Some(LineStep::Cancelled));
        }
    }

    #[test]
    fn pasted_text_is_marked_and_its_line_ends_do_not_end_the_line() {
        assert_line(b"\x1b[200~y\ry\r\x03\x1b[201~\r", "y y ", true);
        assert_line(b"\x1b[200~y\x1b[201~\x7fy\r", "y", false);
    }

    #[test]
    fn invalid_utf8_and_long_lines_are_accepted() {
        assert_line(b"\xff\xfey\r", "\u{fffd}\u{fffd}y", false);
        let long = [vec![b'x'; 3 * MAX_LINE], vec![b'\r']].concat();
        assert_line(&long, &"x".repeat(MAX_LINE), false);
    }
}
