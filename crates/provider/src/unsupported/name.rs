//! Finds the names of parameters in an error message: quoted words, identifiers, and words in the place of a name.

/// A name in a message, without indexes: `tools[0].function` is `tools`, `function`.
#[derive(Debug)]
pub(super) struct Name<'a> {
    parts: Vec<&'a str>,
    /// Whether it is quoted, or cannot be an English word.
    pub(super) is_identifier: bool,
    /// Whether an English word is in the place of a name, or is rarely anything else.
    pub(super) is_subject: bool,
}

/// Field names that are common in any sentence.
const COMMON: &[&str] = &[
    "stop", "store", "include", "text", "format", "options", "stream", "tools", "user", "id", "strict",
    "think",
];

/// Words before a name.
const BEFORE: &[&str] = &[
    "parameter",
    "parameters",
    "param",
    "field",
    "fields",
    "argument",
    "arguments",
    "property",
    "properties",
    "option",
    "key",
    "name",
    "setting",
    "support",
    "supports",
    "unsupported",
    "unknown",
    "unrecognized",
    "unexpected",
    "accept",
    "input",
    "inputs",
];

/// Words after a name.
const BEHIND: &[&str] = &["is", "are", "was", "not", "isn", "unsupported", "cannot", "must"];

impl Name<'_> {
    pub(super) fn is(&self, path: &[&str]) -> bool {
        self.parts.len() == path.len() && self.parts.iter().zip(path).all(|(part, other)| same(part, other))
    }

    /// Whether the name ends with the path of a field: `GenerateContentRequest.generation_config.top_k`.
    pub(super) fn ends_with(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split('.').collect();
        self.parts.len() >= path.len()
            && self.parts[self.parts.len() - path.len()..]
                .iter()
                .zip(&path)
                .all(|(part, other)| same(part, other))
    }

    /// Whether the name is the last part of the path.
    pub(super) fn is_leaf_of(&self, path: &str) -> bool {
        self.is(&[path.rsplit('.').next().unwrap_or(path)])
    }

    /// Whether the name is something inside the field.
    pub(super) fn is_inside(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split('.').collect();
        let matches = |parts: &[&str]| parts.iter().zip(&path).all(|(part, other)| same(part, other));
        self.parts.len() > path.len() && self.parts.windows(path.len()).any(matches)
    }
}

/// Compares names in camelCase and snake_case.
fn same(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    letters(one) == letters(other)
}

/// The names in a message, in their order.
pub(super) fn names_in(message: &str) -> Vec<Name<'_>> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.[]".contains(letter);
    let words: Vec<&str> = message.split(|letter| !is_part(letter)).filter(|word| !word.is_empty()).collect();
    let start = |word: &str| word.as_ptr().addr() - message.as_ptr().addr();
    let name = |(at, word): (usize, &&'_ str)| -> Option<Name<'_>> {
        let begin = start(word);
        let before = message[..begin].chars().next_back();
        let behind = message[begin + word.len()..].chars().next();
        let is_quote = |letter: Option<char>| letter.is_some_and(|letter| "'\"`‘’“”".contains(letter));
        let text = &message[begin..begin + word.len()];
        let parts: Vec<&str> = text
            .split(['.', '[', ']'])
            .filter(|part| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        let looks_written = text.contains(['_', '[']) || has_inner_capital(text) || parts.len() > 1;
        let neighbour = |words: &[&str], other: Option<&&str>| {
            other.is_some_and(|other| words.contains(&other.to_ascii_lowercase().trim_end_matches('.')))
        };
        let previous = at.checked_sub(1).and_then(|at| words.get(at));
        let is_placed =
            behind == Some(':') || neighbour(BEFORE, previous) || neighbour(BEHIND, words.get(at + 1));
        let is_common = COMMON.contains(&text.to_ascii_lowercase().as_str());
        (!parts.is_empty()).then(|| Name {
            is_identifier: looks_written || (is_quote(before) && is_quote(behind)),
            is_subject: is_placed || !is_common,
            parts,
        })
    };
    words.iter().enumerate().filter_map(name).collect()
}

/// Whether a word is in camelCase: `topK`, and not `Temperature`.
fn has_inner_capital(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.contains(|letter: char| letter.is_ascii_uppercase())
}
