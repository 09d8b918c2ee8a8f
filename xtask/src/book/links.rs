//! Links have a target, every page is in the table of contents, and paths in inline code exist.

use super::{SOURCE, page::Page};
use crate::tidy::Problem;
use std::{collections::BTreeSet, path::Path};

/// The table of contents, relative to the root of the repository.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// Prefixes of paths of this repository in inline code.
const OWN_FOLDERS: [&str; 8] =
    ["crates/", "testkit/", "xtask/", "bench/", "fixtures/", "docs/", ".ci/", ".cargo/"];

/// `files` are all files of the repository.
pub(super) fn check(pages: &[Page], files: &BTreeSet<&str>) -> Vec<Problem> {
    let mut problems = summary(pages);
    for page in pages {
        for link in &page.links {
            let wrong = broken(page, &link.text, pages, files);
            problems.extend(wrong.map(|what| Problem::new(page.place(link.line), what)));
        }
        let is_missing = |path: &str| !exists(path, files) && !exists(&with_src(path), files);
        for span in page.spans.iter().filter(|span| is_own_path(&span.text) && is_missing(&span.text)) {
            let what = format!("there is no `{}` in this repository", span.text);
            problems.push(Problem::new(page.place(span.line), what));
        }
    }
    problems
}

/// The reason why a link is broken.
fn broken(page: &Page, link: &str, pages: &[Page], files: &BTreeSet<&str>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) =
        link.split_once('#').map_or((link, None), |(path, fragment)| (path, Some(fragment)));
    let target = if path.is_empty() { page.path.clone() } else { joined(&page.path, path) };
    if !exists(&target, files) {
        return Some(format!("the link `{link}` points to {target}, which does not exist"));
    }
    if page.is_in_book() && !target.starts_with(SOURCE) {
        return Some(format!("the link `{link}` leaves the book, so it is broken in the built pages"));
    }
    let fragment = fragment?;
    let known = pages.iter().find(|page| page.path == target)?;
    let found = known.headings.iter().any(|heading| heading.anchor == fragment);
    (!found).then(|| format!("{target} has no heading `#{fragment}`"))
}

/// A path relative to the folder of a page.
fn joined(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn is_own_path(text: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    OWN_FOLDERS.iter().any(|folder| text.starts_with(folder)) && text.chars().all(is_path)
}

/// Inserts an omitted `src`: `testkit/legal` becomes `testkit/src/legal`, `crates/adk/flow` becomes `crates/adk/src/flow`.
fn with_src(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.insert(depth.min(parts.len()), "src");
    parts.join("/")
}

/// Whether a path is a file, or a directory with files.
fn exists(path: &str, files: &BTreeSet<&str>) -> bool {
    let path = path.trim_end_matches('/');
    let below = format!("{path}/");
    files.contains(path) || files.range(below.as_str()..).next().is_some_and(|file| file.starts_with(&below))
}

/// Every page of the book is listed once.
fn summary(pages: &[Page]) -> Vec<Problem> {
    let Some(summary) = pages.iter().find(|page| page.path == SUMMARY) else {
        return vec![Problem::new(SUMMARY, "the book has no table of contents")];
    };
    let listed: Vec<String> = summary.links.iter().map(|link| joined(SUMMARY, &link.text)).collect();
    let mut problems = Vec::new();
    for page in pages.iter().filter(|page| page.is_in_book() && page.path != SUMMARY) {
        let what = match listed.iter().filter(|path| **path == page.path).count() {
            1 => continue,
            0 => "is not in the table of contents (docs/src/SUMMARY.md), so the book does not contain it",
            _ => "is listed twice in docs/src/SUMMARY.md",
        };
        problems.push(Problem::new(&page.path, what));
    }
    problems
}

/// Whether the checks read this file.
pub(super) fn is_page(path: &str) -> bool {
    let is_markdown = Path::new(path).extension().is_some_and(|end| end == "md");
    is_markdown && (path.starts_with(SOURCE) || !path.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(pages: &[(&str, &str)], others: &[&str]) -> Vec<String> {
        let parsed: Vec<Page> = pages.iter().map(|(path, text)| Page::parse(path, text)).collect();
        let files: BTreeSet<&str> =
            pages.iter().map(|(path, _)| *path).chain(others.iter().copied()).collect();
        check(&parsed, &files).iter().map(ToString::to_string).collect()
    }

    const CONTENTS: (&str, &str) = ("docs/src/SUMMARY.md", "- [A](a.md)\n  - [B](how-to/b.md)\n");

    #[test]
    fn links_within_the_book_are_followed_to_their_heading() {
        let a =
            ("docs/src/a.md", "# Top\n\n[b](how-to/b.md#part-two) [self](#top) [out](https://example.com)\n");
        let b = ("docs/src/how-to/b.md", "## Part two\n\n[a](../a.md)\n");
        assert_eq!(reported(&[CONTENTS, a, b], &[]), Vec::<String>::new());
    }

    #[test]
    fn broken_link_is_reported_with_its_line() {
        let a = ("docs/src/a.md", "\n[x](nowhere.md) [y](how-to/b.md#gone)\n");
        let b = ("docs/src/how-to/b.md", "text\n");
        let reported = reported(&[CONTENTS, a, b], &[]);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported[0].starts_with("docs/src/a.md:2: the link `nowhere.md` points to docs/src/nowhere.md"),
            "{reported:?}"
        );
        assert_eq!(reported[1], "docs/src/a.md:2: docs/src/how-to/b.md has no heading `#gone`");
    }

    #[test]
    fn link_out_of_the_book_is_reported() {
        let a = ("docs/src/a.md", "[readme](../../README.md)\n");
        let b = ("docs/src/how-to/b.md", "text\n");
        let readme = ("README.md", "[docs](docs/src/a.md) [licence](LICENSE-MIT)\n");
        let reported = reported(&[CONTENTS, a, b, readme], &["LICENSE-MIT"]);
        assert_eq!(
            reported,
            [
                "docs/src/a.md:1: the link `../../README.md` leaves the book, so it is broken in the built pages"
            ]
        );
    }

    #[test]
    fn every_page_is_listed_once() {
        let pages = [
            ("docs/src/SUMMARY.md", "[A](a.md)\n[A again](a.md)\n"),
            ("docs/src/a.md", ""),
            ("docs/src/c.md", ""),
        ];
        let reported = reported(&pages, &[]);
        assert!(
            reported[0].contains("a.md: is listed twice")
                && reported[1].contains("c.md: is not in the table"),
            "{reported:?}"
        );
        assert!(check(&[], &BTreeSet::new())[0].to_string().contains("no table of contents"));
    }

    #[test]
    fn missing_path_in_inline_code_is_reported() {
        let a = (
            "docs/src/a.md",
            "`crates/x/src/y.rs` `crates/x/` `crates/x/y.rs` `crates/x/src/z.rs` `crates/<name>/src` `bridge/a.rs`\n",
        );
        let b = ("docs/src/how-to/b.md", "text\n");
        let reported = reported(&[CONTENTS, a, b], &["crates/x/src/y.rs"]);
        assert_eq!(reported, ["docs/src/a.md:1: there is no `crates/x/src/z.rs` in this repository"]);
    }
}
