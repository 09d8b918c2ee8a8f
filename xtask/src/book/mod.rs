//! The documentation in `docs/`: generated parts, checks, and the build with mdBook.
//!
//! | read | for |
//! |---|---|
//! | [`page`] | a Markdown file as the checks see it |
//! | `links` | links, the table of contents, paths in inline code |
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
mod shell;
pub(crate) mod spec;

use crate::{Result, Workspace, peers, tidy::Problem};
use page::Page;
use run::Examiner;
use std::{collections::BTreeSet, fs, process::Command};

/// The folder of the pages.
pub(crate) const SOURCE: &str = "docs/src/";

/// The step of `cargo xtask check`: says every problem, and whether there was none.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let names = workspace.files()?;
    let files: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let read = |path: &str| fs::read_to_string(workspace.root.join(path)).ok();
    let mut pages = Vec::new();
    for path in names.iter().filter(|path| links::is_page(path)) {
        pages.push(Page::parse(path, &fs::read_to_string(workspace.root.join(path))?));
    }
    let mut problems = links::check(&pages, &files);
    problems.extend(pages.iter().flat_map(|page| blocks::check(page, read)));
    let mut examiner = Examiner::new(workspace)?;
    for page in &pages {
        problems.extend(examiner.check(page)?);
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

/// `cargo xtask docs`: builds the book. With `--write` it brings the generated parts up to date instead.
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
