//! Truncation at a character boundary.

/// The first `max` characters of a text.
pub(crate) fn truncate_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}
