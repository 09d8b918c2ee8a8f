//! `cargo xtask tidy`: rules that the compiler does not check, such as dependencies between crates, sizes, style and names.
//!
//! | module | contents |
//! |---|---|
//! | [`dependencies`] | which crate may depend on which |
//! | [`sizes`], [`exceptions`] | lines of a file, methods of a trait, and the exceptions |
//! | [`style`] | the first line of a file, forbidden macros and attributes, paths of one machine |
//! | [`names`] | type names that are unique, glossary terms that exist |
//! | [`specs`] | every scenario of the specification has a test with its id, and every id is in the specification |
//! | [`manifests`] | lints in every crate, no second TLS stack |
//! | [`source`] | a Rust file without its comments, strings and tests |
//!
//! **Invariant.** A rule is a pure function from text to problems; only [`run`] reads files.

mod dependencies;
mod exceptions;
mod manifests;
mod names;
mod sizes;
mod source;
mod specs;
mod style;

use crate::{
    Result, Workspace,
    book::{generated, spec},
};
use source::Source;
use std::{fmt, path::Path};

/// A violation of a rule: its place and a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    place: String,
    what: String,
}

impl Problem {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Prints all problems and returns whether there are none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let files = workspace.texts()?;
    let problems = problems(workspace, &files);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => println!("tidy: {} files, no problems", files.len()),
        1 => println!("tidy: 1 problem"),
        some => println!("tidy: {some} problems"),
    }
    Ok(problems.is_empty())
}

/// The names of the tests that have an id of the specification.
pub(crate) fn spec_tests(files: &[(String, String)]) -> Vec<String> {
    specs::tests(&sources(files)).into_iter().map(|test| test.name).collect()
}

fn sources(files: &[(String, String)]) -> Vec<Source> {
    let rust = files.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "rs"));
    rust.map(|(path, text)| Source::new(path, text)).collect()
}

fn problems(workspace: &Workspace, files: &[(String, String)]) -> Vec<Problem> {
    let sources = sources(files);
    let mut problems = dependencies::check(&workspace.packages);
    problems.extend(sizes::check(&sources, exceptions::EXCEPTIONS));
    problems.extend(sources.iter().flat_map(style::check));
    problems.extend(names::check_types(&sources));
    problems.extend(files.iter().flat_map(|(path, text)| style::machine_paths(path, text)));
    let tests = specs::tests(&sources);
    let page = files.iter().find(|(path, _)| path == spec::PAGE).map_or("", |(_, text)| text);
    problems.extend(specs::check(page, &tests));
    let names: Vec<String> = tests.into_iter().map(|test| test.name).collect();
    problems.extend(generated::check(files, &names));
    for (path, text) in files {
        if workspace.packages.iter().any(|package| package.manifest == *path) {
            problems.extend(manifests::check_manifest(path, text));
        }
        if names::GLOSSARIES.contains(&path.as_str()) {
            problems.extend(names::check_glossary(path, text, &sources));
        }
        if path == "Cargo.lock" {
            problems.extend(manifests::check_lock(text));
        }
    }
    problems
}
