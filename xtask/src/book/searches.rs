//! Searches that a page recommends, ``rg 'term'`` in inline code: each finds something, and not too much.

use super::{is_rust, page::Page};
use crate::tidy::Problem;

/// A search that finds more files than this answers no question.
const MOST: usize = 4;

/// Characters that mean something else in a regular expression.
const PATTERN: [char; 12] = ['(', ')', '[', ']', '{', '}', '*', '+', '?', '|', '\\', '$'];

/// `files` are the texts of the repository.
pub(super) fn check(page: &Page, files: &[(String, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for span in &page.spans {
        let Some((term, below)) = search(&span.text) else { continue };
        let is_source = |path: &str| is_rust(path) && !path.contains("/tests") && path.starts_with(below);
        let found = files.iter().filter(|(path, text)| is_source(path) && text.contains(term)).count();
        let what = match found {
            _ if term.contains(PATTERN) => format!("`{}` has a character that is a pattern to rg", span.text),
            0 => format!("the search `{}` finds nothing", span.text),
            1..=MOST => continue,
            many => format!(
                "the search `{}` finds {many} files; choose a term that only the answer has",
                span.text
            ),
        };
        problems.push(Problem::new(page.place(span.line), what));
    }
    problems
}

/// The term of a search, which is taken literally, and the folder that it is limited to.
fn search(code: &str) -> Option<(&str, &str)> {
    let (term, below) = code.strip_prefix("rg '")?.split_once('\'')?;
    Some((term, below.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> Vec<String> {
        let mut files = vec![
            ("crates/a/src/x.rs".to_owned(), "pub fn window() {}".to_owned()),
            ("crates/a/src/x/tests.rs".to_owned(), "fn only_here() {}".to_owned()),
            ("CONTRIBUTING.md".to_owned(), "fn only_here".to_owned()),
        ];
        files.extend((0..5).map(|n| (format!("crates/b/src/{n}.rs"), "fn many() {}".to_owned())));
        check(&Page::parse("a.md", text), &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_search_finds_its_answer() {
        assert!(reported("`rg 'pub fn window'` and `rg 'fn many' crates/b/src/1` and `rg`").is_empty());
    }

    #[test]
    fn a_search_that_finds_nothing_or_everything_is_reported() {
        assert_eq!(reported("`rg 'fn gone'`"), ["a.md:1: the search `rg 'fn gone'` finds nothing"]);
        assert_eq!(reported("`rg 'fn only_here'`").len(), 1, "tests and pages are not the answer");
        assert!(reported("`rg 'fn many'`")[0].contains("finds 5 files"));
        assert!(reported("`rg 'fn window('`")[0].contains("pattern"));
    }
}
