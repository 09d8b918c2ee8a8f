//! The position of the parser in the text, and the normal form of characters with the same meaning.

use super::ExpressionError;

/// An error has the byte offset at which it occurred.
pub(super) type ParseResult<T> = Result<T, (usize, ExpressionError)>;

/// Signs of currencies that may stand before or after a number.
const CURRENCIES: [char; 7] = ['$', '€', '£', '¥', '₹', '₩', '₽'];

/// A position in an expression.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips space and returns the offset of the next token.
    pub(super) fn next_at(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    /// Skips space and returns the next character without reading it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    /// Whether `before` is the character in front of this position.
    pub(super) fn follows(&self, before: char) -> bool {
        self.text[..self.at].trim_end_matches(|c| c == ' ' && before != ' ').ends_with(before)
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Reads `token` if `not_after` does not follow it.
    pub(super) fn eat_but(&mut self, token: &str, not_after: &str) -> bool {
        self.skip_space();
        let found = self.rest().strip_prefix(token).is_some_and(|rest| !rest.starts_with(not_after));
        self.at += if found { token.len() } else { 0 };
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.name().eq_ignore_ascii_case(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// The letter x between two operands multiplies.
    pub(super) fn eat_letter_x(&mut self) -> bool {
        self.skip_space();
        let after = self.rest().strip_prefix(['x', 'X']).map(str::trim_start);
        let found = after.is_some_and(|after| {
            after.starts_with(|c: char| c.is_ascii_digit() || "(.√∛".contains(c) || is_currency(c))
        });
        self.at += usize::from(found);
        found
    }

    /// The letters and digits that the rest begins with.
    pub(super) fn name(&self) -> &'a str {
        let rest = self.rest();
        let is_part = |c: char| (c.is_alphanumeric() && !is_superscript(c)) || c == '_';
        &rest[..rest.find(|c: char| !is_part(c)).unwrap_or(rest.len())]
    }

    /// The error for what cannot stand here.
    pub(super) fn unexpected(&self) -> (usize, ExpressionError) {
        let Some(c) = self.rest().chars().next() else { return (self.at, ExpressionError::EndsEarly) };
        let found = self.bit_shift().map_or_else(|| String::from(c), str::to_owned);
        let reason = match hint(&found) {
            Some(hint) => ExpressionError::UnexpectedWithHint { found, hint },
            None => ExpressionError::Unexpected(found),
        };
        (self.at, reason)
    }

    fn bit_shift(&self) -> Option<&'static str> {
        ["<<", ">>"].into_iter().find(|sign| self.rest().starts_with(sign))
    }
}

fn hint(found: &str) -> Option<&'static str> {
    let first = found.chars().next()?;
    match first {
        '&' | '|' | '~' => Some("bit operations are not supported"),
        '<' | '>' if found.len() == 2 => Some("bit operations are not supported"),
        '<' | '>' | '≤' | '≥' | '≠' => Some("a comparison cannot be a part of another expression"),
        '=' => Some("use == to compare; there are no variables"),
        ',' => Some("outside functions a comma groups three digits; write decimals with a point"),
        '[' | '{' => Some("a list is allowed as the only argument of sum, min, max and the like"),
        '½' | '¼' | '¾' | '⅓' | '⅔' => Some("write a fraction with /"),
        '\\' => Some("write LaTeX as plain operators and functions"),
        '\'' | '"' => Some("write numbers without quotes"),
        c if c.is_ascii_digit() => Some("an operator is missing between two numbers"),
        _ => None,
    }
}

pub(super) fn is_currency(c: char) -> bool {
    CURRENCIES.contains(&c)
}

fn is_superscript(c: char) -> bool {
    superscript(c).is_some()
}

/// The digit or sign that a superscript stands for.
pub(super) fn superscript(c: char) -> Option<char> {
    const SUPERSCRIPTS: [char; 12] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹', '⁺', '⁻'];
    let at = SUPERSCRIPTS.iter().position(|superscript| *superscript == c)?;
    "0123456789+-".chars().nth(at)
}

/// Replaces characters by others with the same meaning, one by one, so that columns stay as they are.
pub(super) fn normalize(text: &str) -> String {
    text.chars().map(normal).collect()
}

fn normal(c: char) -> char {
    match c {
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' | '\u{3000}' => ' ',
        '−' | '–' | '‐' | '‑' | '﹣' => '-',
        '·' | '∙' | '⋅' | '•' | '∗' | '✕' | '✖' | '⨯' => '×',
        '∕' | '⁄' => '÷',
        '’' => '\'',
        _ => c,
    }
}

/// Removes the equals sign and question mark at the end of a question such as `2 + 2 = ?`, and the equals sign at the start of a
/// formula such as `= 2 + 2`.
pub(super) fn without_question(text: &str) -> &str {
    let text = text.trim_end();
    let text = match text.trim_start().strip_prefix('=') {
        Some(formula) if !formula.starts_with('=') => formula,
        Some(_) | None => text,
    };
    let question = text.strip_suffix('?').map_or(text, str::trim_end);
    match question.strip_suffix('=') {
        Some(before) if !before.ends_with(['=', '<', '>']) => before,
        Some(_) | None => question,
    }
}
