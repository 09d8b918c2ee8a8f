//! Invisible characters. They can hide text from a person that a model reads, or change the order in which text is shown.

/// Yields each character with whether it must be shown as an escape.
///
/// Joiners and variation selectors are part of emoji and of Indic and Arabic words. They are kept between, or after, the characters that
/// they can affect, at most one at a time. At the ends of `text` they are kept, because the neighbour may be in the next chunk of a stream.
pub(super) fn classify(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut previous = None;
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let current = chars.next()?;
        let next = chars.peek().copied();
        let is_hidden = match current {
            ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER => {
                !(previous.is_none_or(can_join) && next.is_none_or(can_join))
            }
            '\u{fe00}'..='\u{fe0f}' => {
                previous.is_some_and(|previous| is_ignorable(previous) || is_blank(previous))
            }
            other => is_invisible(other),
        };
        previous = Some(current);
        Some((current, is_hidden))
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
