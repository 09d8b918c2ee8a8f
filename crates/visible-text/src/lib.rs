//! Decides how each character of a text is shown to a person: invisible characters as escapes, control characters as U+FFFD.
//!
//! Invisible characters can hide text from a person that a model reads, or change the order in which text is shown. The terminal and
//! the responses to web pages follow the same decision.

use std::fmt;

/// How a character is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// As it is.
    Unchanged,
    /// As an escape such as `<U+200B>`, because it is invisible or reorders text.
    Escaped,
    /// As U+FFFD, because it is a control character other than a line feed, a carriage return or a tab.
    Replaced,
}

impl Shown {
    /// Decides about a character between its neighbours, which are `None` at the ends of the text.
    ///
    /// Joiners and variation selectors are part of emoji and of Indic and Arabic words. They are kept between, or after, the
    /// characters that they can affect, at most one at a time. At the ends they are kept, because the neighbour may be in the next
    /// chunk of a stream.
    pub fn decide(previous: Option<char>, current: char, next: Option<char>) -> Self {
        let is_hidden = match current {
            ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER => {
                !(previous.is_none_or(can_join) && next.is_none_or(can_join))
            }
            '\u{fe00}'..='\u{fe0f}' => {
                previous.is_some_and(|previous| is_ignorable(previous) || is_blank(previous))
            }
            other => is_invisible(other),
        };
        match current {
            _ if is_hidden => Self::Escaped,
            '\n' | '\r' | '\t' => Self::Unchanged,
            _ if current.is_control() => Self::Replaced,
            _ => Self::Unchanged,
        }
    }

    /// Writes the character as it is shown.
    pub fn write(self, c: char, out: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::Unchanged => out.write_char(c),
            Self::Escaped => write!(out, "<U+{:04X}>", u32::from(c)),
            Self::Replaced => out.write_char('\u{fffd}'),
        }
    }
}

/// Whether the decision about a character depends on the next one.
pub fn depends_on_next(c: char) -> bool {
    matches!(c, ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER)
}

/// Yields each character of a text with how it is shown.
pub fn classify(text: &str) -> impl Iterator<Item = (char, Shown)> {
    let mut previous = None;
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let current = chars.next()?;
        let shown = Shown::decide(previous, current, chars.peek().copied());
        previous = Some(current);
        Some((current, shown))
    })
}

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Characters that are never shown as they are. Flags of England, Scotland and Wales are made of tag characters and are escaped too.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            // Marks, embeddings, overrides and isolates of bidirectional text.
            | '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{180e}' | '\u{200b}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            // Tag characters, supplementary variation selectors, and the rest of their block.
            | '\u{e0000}'..='\u{e0fff}'
    )
}

fn is_ignorable(c: char) -> bool {
    is_invisible(c) || matches!(c, ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER | '\u{fe00}'..='\u{fe0f}')
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Whether a joiner can affect the character. U+FE0F precedes the joiners of emoji.
fn can_join(c: char) -> bool {
    !c.is_ascii() && !is_blank(c) && (c == '\u{fe0f}' || !is_ignorable(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let mut out = String::new();
        for (c, shown) in classify(text) {
            shown.write(c, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn invisible_characters_are_shown_as_escapes() {
        for (text, shown) in [
            ("a\u{202e}txt.exe", "a<U+202E>txt.exe"),
            ("\u{2066}x\u{2069}", "<U+2066>x<U+2069>"),
            ("ok\u{e0049}\u{e007f}", "ok<U+E0049><U+E007F>"),
            ("a\u{e0100}\u{e01ef}", "a<U+E0100><U+E01EF>"),
            ("\u{feff}z\u{200b}e\u{2060}r\u{2063}o", "<U+FEFF>z<U+200B>e<U+2060>r<U+2063>o"),
            ("pass\u{200d}word\u{200c}!", "pass<U+200D>word<U+200C>!"),
            ("\u{e9}\u{200d}\u{200c}\u{e9}", "\u{e9}<U+200D><U+200C>\u{e9}"),
            ("x\u{fe00}\u{fe01}\u{fe02}", "x\u{fe00}<U+FE01><U+FE02>"),
            // The flag of Scotland.
            ("\u{1f3f4}\u{e0067}\u{e007f}", "\u{1f3f4}<U+E0067><U+E007F>"),
        ] {
            assert_eq!(show(text), shown);
        }
    }

    #[test]
    fn joiners_and_variation_selectors_of_scripts_and_emoji_are_kept() {
        for text in [
            "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
            "1\u{fe0f}\u{20e3}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94d}\u{200d}\u{937}",
            // Chunks of a stream.
            "\u{1f469}\u{200d}",
            "\u{200d}\u{1f467}",
            "\u{fe0f}",
        ] {
            assert_eq!(show(text), text);
        }
    }

    #[test]
    fn control_characters_except_line_ends_and_tabs_are_replaced() {
        assert_eq!(show("a\u{1b}[0m\u{9b}\u{7f}\u{0}\r\n\t"), "a\u{fffd}[0m\u{fffd}\u{fffd}\u{fffd}\r\n\t");
    }
}
