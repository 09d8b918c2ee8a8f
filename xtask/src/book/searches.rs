//! Searches in inline code, ``rg -iw 'term' crates``: each must find something. If its line also names a file, the first
//! screen of results must show that file, so that one search for the usual term answers the question.

use super::{is_rust, page::Page};
use crate::tidy::Problem;

/// The maximum number of files that a useful search without a named file finds.
const MAX_RESULTS: usize = 4;

/// The number of lines on the first screen. Results are sorted by path, as with `rg --sort path` or `git grep`.
const SCREEN: usize = 30;

/// Metacharacters of regular expressions.
const PATTERN: [char; 12] = ['(', ')', '[', ']', '{', '}', '*', '+', '?', '|', '\\', '$'];

/// `files` are the texts of the repository.
pub(super) fn check(page: &Page, files: &[(String, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for span in &page.spans {
        let Some(search) = Search::parse(&span.text) else { continue };
        let on_line = page.spans.iter().filter(|other| other.line == span.line);
        let named: Vec<&str> =
            on_line.map(|other| other.text.as_str()).filter(|text| is_rust(text)).collect();
        let what = search.problem(files, &named).map(|what| format!("the search `{}` {what}", span.text));
        problems.extend(what.map(|what| Problem::new(page.place(span.line), what)));
    }
    problems
}

/// A search for a literal term.
struct Search<'a> {
    term: &'a str,
    ignores_case: bool,
    whole_words: bool,
    /// The directory that it is limited to.
    below: &'a str,
}

impl<'a> Search<'a> {
    fn parse(code: &'a str) -> Option<Self> {
        let (flags, rest) = code.strip_prefix("rg ")?.split_once('\'')?;
        let (term, below) = rest.split_once('\'')?;
        // With other flags it is an example of a command, not a search of this repository.
        if !flags.trim().trim_start_matches('-').chars().all(|flag| "iw".contains(flag)) {
            return None;
        }
        let has = |flag: char| flags.trim().strip_prefix('-').is_some_and(|flags| flags.contains(flag));
        Some(Self { term, ignores_case: has('i'), whole_words: has('w'), below: below.trim() })
    }

    fn problem(&self, files: &[(String, String)], named: &[&str]) -> Option<String> {
        if self.term.contains(PATTERN) {
            return Some("has a character that is a pattern to rg".to_owned());
        }
        let found = self.results(files);
        let count = found.len();
        match named {
            _ if found.is_empty() => Some("finds nothing".to_owned()),
            [] if count > MAX_RESULTS => {
                Some(format!("finds {count} files; choose a term that only the answer has"))
            }
            [] => None,
            named => {
                let shown = first_screen(&found);
                let missing = named.iter().find(|file| !shown.contains(file))?;
                Some(format!("does not show {missing} in its first {SCREEN} lines"))
            }
        }
    }

    /// The files with their numbers of matching lines, sorted by path.
    fn results<'f>(&self, files: &'f [(String, String)]) -> Vec<(&'f str, usize)> {
        let in_scope = files.iter().filter(|(path, _)| is_rust(path) && path.starts_with(self.below));
        let counted = in_scope
            .map(|(path, text)| (path.as_str(), text.lines().filter(|line| self.matches(line)).count()));
        let mut found: Vec<(&str, usize)> = counted.filter(|(_, lines)| *lines > 0).collect();
        found.sort_unstable();
        found
    }

    fn matches(&self, line: &str) -> bool {
        let (line, term) = if self.ignores_case {
            (line.to_lowercase(), self.term.to_lowercase())
        } else {
            (line.to_owned(), self.term.to_owned())
        };
        line.match_indices(&term).any(|(at, _)| {
            let is_open = |next: Option<char>| !next.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let (before, after) = (&line[..at], &line[at + term.len()..]);
            !self.whole_words || (is_open(before.chars().next_back()) && is_open(after.chars().next()))
        })
    }
}

fn first_screen<'f>(found: &[(&'f str, usize)]) -> Vec<&'f str> {
    let mut lines = 0;
    let is_shown = |(_, count): &&(&str, usize)| {
        let starts_at = lines;
        lines += count;
        starts_at < SCREEN
    };
    found.iter().take_while(is_shown).map(|(path, _)| *path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> Vec<String> {
        let mut files = vec![
            ("crates/z/src/x.rs".to_owned(), "pub fn window() {}\n// The lease".to_owned()),
            ("crates/a/src/many.rs".to_owned(), "// a release\n".repeat(40)),
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
    fn command_with_other_flags_is_not_a_search() {
        assert!(reported("`rg -n 'fn gone'`").is_empty());
        assert!(reported("`rg -n -g '*.rs' 'fn gone' src`").is_empty());
    }

    #[test]
    fn search_with_no_or_too_many_results_is_reported() {
        assert_eq!(reported("`rg 'fn gone'`"), ["a.md:1: the search `rg 'fn gone'` finds nothing"]);
        assert_eq!(reported("`rg 'fn only_here'`").len(), 1, "pages do not count");
        assert!(reported("`rg 'fn many'`")[0].contains("finds 5 files"));
        assert!(reported("`rg 'fn window('`")[0].contains("pattern"));
    }

    #[test]
    fn named_file_must_be_on_the_first_screen() {
        assert_eq!(reported("| lease | `rg -iw 'LEASE' crates` | `crates/z/src/x.rs` |"), [""; 0]);
        assert_eq!(
            reported("| lease | `rg -i 'lease' crates` | `crates/z/src/x.rs` |"),
            [
                "a.md:1: the search `rg -i 'lease' crates` does not show crates/z/src/x.rs in its first 30 lines"
            ]
        );
        assert_eq!(reported("`rg -w 'LEASE' crates`").len(), 1, "the case counts without -i");
    }
}
