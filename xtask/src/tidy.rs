//! What the compiler does not check: who may know whom, how long things may grow, and the habits of the place.
//!
//! | read | for |
//! |---|---|
//! | [`arrows`] | which crate may depend on which |
//! | [`sizes`], [`exceptions`] | lines of a file, methods of a trait, and those that may have more |
//! | [`habits`] | the first line of a file, words that stay out |
//! | [`names`] | type names that are unique, glossary terms that exist |
//! | [`specs`] | every scenario of the specification has a test with its id, and every id is in the specification |
//! | [`manifests`] | lints in every crate, no second TLS stack |
//! | [`source`] | a Rust file without its comments, strings and tests |
//!
//! **Invariant.** A rule is a pure function from text to problems; only [`run`] reads files.

mod arrows;
mod exceptions;
mod habits;
mod manifests;
mod names;
mod sizes;
mod source;
mod specs;

use crate::{
    Result, Workspace,
    book::{generated, spec},
};
use source::Source;
use std::{fmt, path::Path};

/// Something to mend: where, and which rule it breaks.
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

/// Says every problem, and whether there was none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let files = workspace.texts()?;
    let problems = problems(workspace, &files);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => println!("tidy: {} files, nothing to mend", files.len()),
        1 => println!("tidy: 1 problem"),
        some => println!("tidy: {some} problems"),
    }
    Ok(problems.is_empty())
}

/// The names of the tests that carry an id of the specification.
pub(crate) fn spec_tests(files: &[(String, String)]) -> Vec<String> {
    specs::tests(&sources(files)).into_iter().map(|test| test.name).collect()
}

fn sources(files: &[(String, String)]) -> Vec<Source> {
    let rust = files.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "rs"));
    rust.map(|(path, text)| Source::new(path, text)).collect()
}

fn problems(workspace: &Workspace, files: &[(String, String)]) -> Vec<Problem> {
    let sources = sources(files);
    let mut problems = arrows::check(&workspace.packages);
    problems.extend(sizes::check(&sources, exceptions::EXCEPTIONS));
    problems.extend(sources.iter().flat_map(habits::check));
    problems.extend(names::check_types(&sources));
    problems.extend(files.iter().flat_map(|(path, text)| habits::machine_paths(path, text)));
    let tests = specs::tests(&sources);
    let page = files.iter().find(|(path, _)| path == spec::PAGE).map_or("", |(_, text)| text);
    problems.extend(specs::check(page, &tests));
    let names: Vec<String> = tests.into_iter().map(|test| test.name).collect();
    problems.extend(generated::check(files, &names));
    for (path, text) in files {
        if workspace.packages.iter().any(|package| package.manifest == *path) {
            problems.extend(manifests::check_manifest(path, text));
        }
        if path == "ARCHITECTURE.md" {
            problems.extend(names::check_glossary(path, text, &sources));
        }
        if path == "Cargo.lock" {
            problems.extend(manifests::check_lock(text));
        }
    }
    problems
}
