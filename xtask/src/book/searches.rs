//! Searches in inline code, ``rg 'term'``: each must find something, but not too many files.

use super::{is_rust, page::Page};
use crate::tidy::Problem;

/// The maximum number of files that a useful search finds.
const MAX_RESULTS: usize = 4;

/// Metacharacters of regular expressions.
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
            1..=MAX_RESULTS => continue,
            many => format!(
                "the search `{}` finds {many} files; choose a term that only the answer has",
                span.text
            ),
        };
        problems.push(Problem::new(page.place(span.line), what));
    }
    problems
}

/// The term of a search, which is literal, and the directory that it is limited to.
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
    fn specific_search_is_accepted() {
        assert!(reported("`rg 'pub fn window'` and `rg 'fn many' crates/b/src/1` and `rg`").is_empty());
    }

    #[test]
    fn search_with_no_or_too_many_results_is_reported() {
        assert_eq!(reported("`rg 'fn gone'`"), ["a.md:1: the search `rg 'fn gone'` finds nothing"]);
        assert_eq!(reported("`rg 'fn only_here'`").len(), 1, "tests and pages do not count");
        assert!(reported("`rg 'fn many'`")[0].contains("finds 5 files"));
        assert!(reported("`rg 'fn window('`")[0].contains("pattern"));
    }
}
