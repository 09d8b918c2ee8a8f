//! A Rust file in three forms: the text, the code without comments and literals, and the code without tests.

use std::ops::Range;

/// The three forms have the same length and line breaks, so that an offset is valid in each.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    /// Comments and literals are replaced by blanks.
    pub(super) code: String,
    /// Tests are replaced by blanks as well.
    pub(super) shipped: String,
    /// Lines that do not belong to tests.
    pub(super) lines: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = code_of(text);
        let all = 0..code.len();
        let tests = if is_test(path) { vec![all] } else { test_items(&code) };
        let mut shipped = code.clone();
        let mut lines = text.lines().count();
        for range in &tests {
            lines = lines.saturating_sub(text[range.clone()].lines().count());
            shipped.replace_range(range.clone(), &blanks(&code[range.clone()]));
        }
        Self { path: path.to_owned(), text: text.to_owned(), code, shipped, lines }
    }

    /// `path:line` of an offset.
    pub(super) fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path, line_of(&self.text, offset))
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The offsets of `word` in `code` where it is not the end of a longer word.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(|at| !code[..*at].ends_with(is_word))
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of `code` up to the end of its first `{…}` or, if that comes earlier, its first `;`.
pub(super) fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, ';' | '}') {
            // `use a::{b, c};` ends after its braces.
            return at + 1 + usize::from(code[at + 1..].starts_with(';'));
        }
    }
    code.len()
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for (at, _) in code.match_indices("#[cfg(") {
        let condition = code[at..].trim_start_matches("#[cfg(");
        let inside_another = items.last().is_some_and(|item| item.contains(&at));
        if !inside_another && (condition.starts_with("test)") || condition.starts_with("all(test,")) {
            items.push(at..at + item_length(&code[at..]));
        }
    }
    items
}

fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    while let Some(next) = text[code.len()..].chars().next() {
        let rest = &text[code.len()..];
        match blank_length(rest, code.ends_with(is_word)) {
            0 => code.push(next),
            length => code.push_str(&blanks(&rest[..length])),
        }
    }
    code
}

/// The length of the comment or literal at the start of `text`; 0 if there is none.
fn blank_length(text: &str, in_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return comment_length(text);
    }
    if text.starts_with('"') {
        return quoted_length(text, '"');
    }
    if let Some(literal) = text.strip_prefix('\'') {
        let mut chars = literal.chars();
        return match (chars.next(), chars.next()) {
            (Some('\\'), _) | (_, Some('\'')) => quoted_length(text, '\''),
            // A lifetime.
            _ => 0,
        };
    }
    if in_word { 0 } else { raw_length(text) }
}

fn comment_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        let step = match &text[at..] {
            rest if rest.starts_with("/*") => {
                depth += 1;
                2
            }
            rest if rest.starts_with("*/") => {
                depth -= 1;
                2
            }
            _ => c.len_utf8(),
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string such as `r"…"` or `br#"…"#`; 0 if there is none.
fn raw_length(text: &str) -> usize {
    let Some(body) = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix)) else { return 0 };
    let hashes = body.len() - body.trim_start_matches('#').len();
    let Some(inside) = body[hashes..].strip_prefix('"') else { return 0 };
    let end = format!("\"{}", "#".repeat(hashes));
    let opening = text.len() - inside.len();
    inside.find(&end).map_or(text.len(), |at| opening + at + end.len())
}

/// Blanks of the same length, with the same line breaks.
fn blanks(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("}\"{", 'x', '\'')"#, "f(      ,    ,     )"),
            ("r#\"a\"b\"# c", "         c"),
            ("for<'a> &'a str", "for<'a> &'a str"),
            ("r#fn bar", "r#fn bar"),
            ("'é'+1", "    +1"),
        ];
        for (text, code) in cases {
            assert_eq!(code_of(text), code, "{text}");
        }
    }

    #[test]
    fn test_items_are_blanked_and_not_counted() {
        let text = "fn a() {}\n#[cfg(test)]\nuse b::{C, D};\nfn e() {}\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
        let source = Source::new("crates/x/src/y.rs", text);
        let left: Vec<&str> = source.shipped.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(left, ["fn a() {}", "fn e() {}"]);
        assert_eq!(source.lines, 2);
        assert_eq!(Source::new("crates/x/src/y/tests.rs", text).lines, 0);
    }

    #[test]
    fn place_is_path_and_line() {
        let source = Source::new("a.rs", "//! x\nfn a() {}\nfn b() {}\n");
        assert_eq!(source.place(source.text.find("fn b").unwrap()), "a.rs:3");
    }
}
