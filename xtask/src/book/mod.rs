//! The documentation in `docs/`: generated parts, checks, and the build with mdBook.
//!
//! | module | contents |
//! |---|---|
//! | [`page`] | a parsed Markdown file |
//! | `links`, `searches` | links, the table of contents, paths and searches in inline code |
//! | `blocks`, `shell`, `run` | code blocks: configurations, commands, quotes of source files |
//! | [`generated`] | the parts that are written by `cargo xtask docs --write` |
//! | `config` | the configuration reference, from the types of `lango.toml` |
//! | [`spec`] | ids of the specification, and their tests |

mod blocks;
mod config;
pub(crate) mod generated;
mod links;
pub(crate) mod page;
mod run;
mod searches;
mod shell;
pub(crate) mod spec;

use crate::{Result, Workspace, peers, tidy::Problem};
use page::Page;
use run::BinaryChecker;
use std::{collections::BTreeSet, path::Path, process::Command};

/// The directory of the pages.
pub(crate) const SOURCE: &str = "docs/src/";

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "rs")
}

/// The step of `cargo xtask check`: prints all problems and returns whether there are none.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let (names, texts) = (workspace.files()?, workspace.texts()?);
    let files: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let read = |wanted: &str| texts.iter().find(|(path, _)| path == wanted).map(|(_, text)| text.as_str());
    let pages = texts.iter().filter(|(path, _)| links::is_page(path));
    let pages: Vec<Page> = pages.map(|(path, text)| Page::parse(path, text)).collect();
    let mut problems = links::check(&pages, &files);
    for page in &pages {
        problems.extend(blocks::check(page, read));
        problems.extend(searches::check(page, &texts));
    }
    let mut checker = BinaryChecker::new(workspace)?;
    for page in &pages {
        problems.extend(checker.check(page)?);
    }
    Ok(report(&problems, pages.len()))
}

fn report(problems: &[Problem], pages: usize) -> bool {
    for problem in problems {
        println!("{problem}");
    }
    println!("book: {pages} pages, {} problems", problems.len());
    problems.is_empty()
}

/// `cargo xtask docs`: builds the book. With `--write` it updates the generated parts instead.
pub(crate) fn docs(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    match args {
        [] => build(workspace),
        ["--write"] => generated::write(workspace).map(|()| true),
        _ => Err(format!("docs takes `--write` or nothing, not `{}`", args.join(" ")).into()),
    }
}

fn build(workspace: &Workspace) -> Result<bool> {
    let Some(mdbook) = peers::mdbook(workspace)? else { return Ok(false) };
    let destination = workspace.target.join("book");
    let mut command = Command::new(mdbook);
    command.arg("build").arg(workspace.root.join("docs")).arg("--dest-dir").arg(&destination);
    let good = command.status()?.success();
    if good {
        println!("docs: {}", destination.join("index.html").display());
    }
    Ok(good)
}
