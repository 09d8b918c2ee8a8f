//! The checks of a code block, by its fence, and those that need no program.
//!
//! | fence | check |
//! |---|---|
//! | `toml` | the configuration loader of the binary accepts it |
//! | `sh` | `sh -n` parses it; commands and options of `lango` and `cargo xtask` exist |
//! | `rust,from=PATH` | its lines are consecutive lines of that file; `…` marks an omission |
//! | `toml,ignore WHY`, `sh,ignore WHY`, `rust,ignore WHY` | none, for the reason given |
//! | `text`, `json`, `yaml`, `http`, `sql` | none |

use super::page::{Block, Page};
use crate::tidy::Problem;

/// Languages that are not checked.
const FREE: [&str; 5] = ["text", "json", "yaml", "http", "sql"];

/// The check of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Configuration,
    Commands,
    /// The block must quote this file.
    Quote(String),
    /// The fence is invalid, with the reason.
    Invalid(String),
}

impl Check {
    pub(super) fn of(block: &Block) -> Self {
        let info = block.info.trim();
        let (language, rest) = info.split_once(',').unwrap_or((info, ""));
        if let Some(reason) = rest.strip_prefix("ignore") {
            let needs = format!("give the reason why it is not checked: ```{language},ignore REASON");
            return if reason.trim().is_empty() { Self::Invalid(needs) } else { Self::Nothing };
        }
        match (language, rest) {
            ("toml", "") => Self::Configuration,
            ("sh", "") => Self::Commands,
            ("rust", quote) if quote.starts_with("from=") => Self::Quote(quote["from=".len()..].to_owned()),
            ("rust", _) => Self::Invalid(
                "Rust code quotes a file (```rust,from=PATH) or gives a reason (```rust,ignore REASON)"
                    .into(),
            ),
            ("", _) => {
                Self::Invalid("name the language: text, sh, toml, rust, json, yaml, http or sql".into())
            }
            (free, "") if FREE.contains(&free) => Self::Nothing,
            _ => Self::Invalid(format!("`{info}` is an unknown fence; see xtask/src/book/blocks.rs")),
        }
    }
}

/// Problems of fences and quotes. `read` returns the text of a file of the repository.
pub(super) fn check<'a>(page: &Page, read: impl Fn(&str) -> Option<&'a str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for block in &page.blocks {
        let wrong = match Check::of(block) {
            // Files at the root of the repository are also read on GitHub and may have blocks without a language.
            Check::Invalid(_) if !page.is_in_book() && block.info.is_empty() => None,
            Check::Invalid(why) => Some(why),
            Check::Quote(path) => match read(&path) {
                Some(text) => {
                    missing_line(&block.text, text).map(|line| format!("{path} has no line `{line}` there"))
                }
                None => Some(format!("it quotes {path}, which does not exist")),
            },
            Check::Nothing | Check::Configuration | Check::Commands => None,
        };
        problems.extend(wrong.map(|what| Problem::new(page.place(block.line), what)));
    }
    problems
}

/// The first line of a quote that does not follow the previous quoted line in the file. Blank lines are ignored.
fn missing_line(quote: &str, file: &str) -> Option<String> {
    let lines: Vec<&str> = file.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let quoted: Vec<&str> = quote.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut rest = &lines[..];
    for part in quoted.split(|line| matches!(*line, "…" | "// …")) {
        let common =
            |at: &usize| rest[*at..].iter().zip(part).take_while(|(there, line)| there == line).count();
        // The longest match: its end is the line that a reader has to correct.
        let best = (0..rest.len()).rev().max_by_key(common)?;
        let length = common(&best);
        if let Some(line) = part.get(length) {
            return Some((*line).to_owned());
        }
        rest = &rest[best + length..];
    }
    None
}

/// The names of the environment variables in a configuration.
pub(super) fn variables(configuration: &str) -> impl Iterator<Item = &str> {
    configuration.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_of(info: &str) -> Check {
        Check::of(&Block { info: info.to_owned(), ..Block::default() })
    }

    #[test]
    fn fence_selects_the_check() {
        assert_eq!(check_of("toml"), Check::Configuration);
        assert_eq!(check_of("sh"), Check::Commands);
        assert_eq!(check_of("text"), Check::Nothing);
        assert_eq!(check_of("rust,from=crates/a.rs"), Check::Quote("crates/a.rs".to_owned()));
        assert_eq!(check_of("toml,ignore the format of cargo-deny"), Check::Nothing);
    }

    #[test]
    fn unchecked_fence_needs_a_reason() {
        for info in ["", "toml,ignore", "rust", "rust,ignore ", "rust,no_run", "python", "text,x"] {
            assert!(matches!(check_of(info), Check::Invalid(_)), "{info}");
        }
    }

    #[test]
    fn quote_has_consecutive_lines_of_its_file() {
        let file = "pub trait A {\n    fn b(&self);\n\n    fn c(&self);\n}\n";
        assert_eq!(missing_line("pub trait A {\n…\nfn c(&self);\n}", file), None);
        assert_eq!(missing_line("fn b(&self);\nfn c(&self);", file), None, "blank lines are ignored");
        assert_eq!(missing_line("pub trait A {\nfn c(&self);\n}", file), Some("fn c(&self);".to_owned()));
        assert_eq!(missing_line("pub trait A {\n…\n}\n", file), None);
        assert_eq!(missing_line("fn c(&self);\nfn b(&self);", file), Some("fn b(&self);".to_owned()));
        assert_eq!(
            missing_line("pub trait A {\n    fn renamed(&self);", file),
            Some("fn renamed(&self);".to_owned())
        );
    }

    #[test]
    fn quote_of_a_missing_file_is_reported() {
        let page = Page::parse("docs/src/a.md", "```rust,from=crates/a.rs\nfn a() {}\n```\n\n```\nx\n```\n");
        let reported: Vec<String> = check(&page, |_| None).iter().map(ToString::to_string).collect();
        assert_eq!(reported.len(), 2);
        assert_eq!(reported[0], "docs/src/a.md:1: it quotes crates/a.rs, which does not exist");
        assert!(check(&Page::parse("README.md", "```\nx\n```\n"), |_| None).is_empty());
    }

    #[test]
    fn variables_of_a_configuration_are_found() {
        let found: Vec<&str> = variables("key = \"${A}\" # ${B:-x}\nb = \"$C ${D}\"").collect();
        assert_eq!(found, ["A", "B", "D"]);
    }
}
