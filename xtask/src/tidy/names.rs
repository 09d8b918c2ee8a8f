//! Searchable names: a type name is declared in at most two files, tests included, and every term of the glossary occurs in the code.

use super::{
    Problem,
    source::{Source, is_word, words},
};
use std::collections::BTreeMap;

/// The number of files in which a type of one name may be declared.
const MAX_FILES: usize = 2;

/// Names that are clear from their module path.
const EXEMPT: [&str; 3] = ["Error", "Options", "Result"];

/// The pages with a glossary.
pub(super) const GLOSSARIES: [&str; 2] = ["ARCHITECTURE.md", "docs/src/glossary.md"];

/// The heading of a glossary, of any level: a table whose first column holds the terms.
const GLOSSARY: &str = "# Glossary";

pub(super) fn check_types(sources: &[Source]) -> Vec<Problem> {
    let mut declared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in type_names(&source.code) {
            let files = declared.entry(name).or_default();
            if files.last() != Some(&source.path.as_str()) {
                files.push(&source.path);
            }
        }
    }
    declared.retain(|name, files| files.len() > MAX_FILES && !EXEMPT.contains(name));
    let problem = |(name, files): (&str, Vec<&str>)| {
        let what =
            format!("is declared in {} files, the limit is {MAX_FILES}: {}", files.len(), files.join(", "));
        Problem::new(format!("type {name}"), what)
    };
    declared.into_iter().map(problem).collect()
}

/// The names of the structs, enums, traits and module-level type aliases that a file declares.
fn type_names(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for keyword in ["struct ", "enum ", "trait ", "type "] {
        for at in words(code, keyword) {
            let name = &code[at + keyword.len()..];
            let name = &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())];
            let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
            // An associated type repeats the name that its trait gives it.
            let is_associated = keyword == "type " && line.starts_with(' ');
            if name.starts_with(char::is_uppercase) && !is_associated {
                names.push(name);
            }
        }
    }
    names
}

/// Every term of the glossary occurs in the code, so that a search for it finds something.
pub(super) fn check_glossary(path: &str, text: &str, sources: &[Source]) -> Vec<Problem> {
    let terms = terms(text);
    if terms.is_empty() {
        return vec![Problem::new(path, format!("has no table of terms under `{GLOSSARY}`"))];
    }
    let code: Vec<String> = sources.iter().map(|source| source.shipped.to_lowercase()).collect();
    let occurs = |term: &str| {
        let snake = term.to_lowercase().replace([' ', '-'], "_");
        let joined = snake.replace('_', "");
        code.iter().any(|code| code.contains(&snake) || code.contains(&joined))
    };
    let missing = terms.into_iter().filter(|term| !occurs(term));
    missing
        .map(|term| Problem::new(path, format!("the glossary has `{term}`, which no code contains")))
        .collect()
}

/// The first column of the glossary; a cell may hold several terms, separated by commas or slashes.
fn terms(text: &str) -> Vec<&str> {
    let Some((_, glossary)) = text.split_once(GLOSSARY) else { return Vec::new() };
    let rows =
        glossary.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|'));
    // The first two rows are the head of the table.
    let cells = rows.skip(2).filter_map(|row| row.split('|').nth(1));
    let terms = cells.flat_map(|cell| cell.split([',', '/'])).map(|term| term.trim().trim_matches('`'));
    terms.filter(|term| !term.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(path, text)| Source::new(path, text)).collect()
    }

    #[test]
    fn a_type_name_in_a_third_file_is_reported() {
        let two = [("a.rs", "pub struct Cursor;"), ("b.rs", "enum Cursor { A }")];
        assert_eq!(check_types(&sources(&two)), []);
        let [first, second] = two;
        let third = [first, second, ("c.rs", "pub(crate) trait Cursor {}")];
        let problems = check_types(&sources(&third));
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "type Cursor: is declared in 3 files, the limit is 2: a.rs, b.rs, c.rs"
        );
    }

    #[test]
    fn associated_types_exempt_names_and_repetitions_in_one_file_do_not_count() {
        let files = [
            ("a.rs", "struct Cursor; mod x { struct Cursor; }\nenum Error {}"),
            ("b.rs", "struct Cursor;\nenum Error {}"),
            ("c.rs", "impl T for U {\n    type Cursor = u8;\n}\nenum Error {}"),
            ("d.rs", "// struct Cursor;\nfn f() { \"struct Cursor\"; }"),
        ];
        assert_eq!(check_types(&sources(&files)), []);
    }

    #[test]
    fn types_of_tests_count() {
        let in_tests = ("c.rs", "#[cfg(test)]\nmod tests { struct Cursor; }");
        let files = [("a.rs", "struct Cursor;"), ("b/tests/it.rs", "struct Cursor;"), in_tests];
        assert_eq!(check_types(&sources(&files)).len(), 1);
    }

    #[test]
    fn glossary_terms_occur_in_the_code() {
        let code = sources(&[("a.rs", "struct RunLease; fn idempotency_key() {}")]);
        let page = "## Glossary\n\n| term | meaning |\n|---|---|\n| lease, `idempotency key` | x |\n| turn / run | y |\n\n## Next\n| other | z |\n";
        let problems: Vec<String> =
            check_glossary("A.md", page, &code).iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["A.md: the glossary has `turn`, which no code contains"]);
        assert_eq!(check_glossary("A.md", "no glossary", &code).len(), 1);
    }
}
