//! What the compiler does not check: who may know whom, how long things may grow, and the habits of the place.
//!
//! | read | for |
//! |---|---|
//! | [`arrows`] | which crate may depend on which |
//! | [`sizes`], [`exceptions`] | lines of a file, methods of a trait, and those that may have more |
//! | [`habits`] | the first line of a file, words that stay out |
//! | [`specs`] | every line of the spec has a test with its name |
//! | [`manifests`] | lints in every crate, no second TLS stack |
//! | [`source`] | a Rust file without its comments, strings and tests |
//!
//! **Invariant.** A rule is a pure function from text to problems; only [`run`] reads files.

mod arrows;
mod exceptions;
mod habits;
mod manifests;
mod sizes;
mod source;
mod specs;

use crate::{Result, Workspace};
use source::Source;
use std::{fmt, fs, path::Path};

/// Something to mend: where, and which rule it breaks.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    place: String,
    what: String,
}

impl Problem {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
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
    let mut files = Vec::new();
    for path in workspace.files()? {
        // What is not text holds no words to look for.
        if let Ok(text) = String::from_utf8(fs::read(workspace.root.join(&path))?) {
            files.push((path, text));
        }
    }
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

fn problems(workspace: &Workspace, files: &[(String, String)]) -> Vec<Problem> {
    let rust = files.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "rs"));
    let sources: Vec<Source> = rust.map(|(path, text)| Source::new(path, text)).collect();
    let mut problems = arrows::check(&workspace.packages);
    problems.extend(sizes::check(&sources, exceptions::EXCEPTIONS));
    problems.extend(sources.iter().flat_map(habits::check));
    problems.extend(files.iter().flat_map(|(path, text)| habits::machine_paths(path, text)));
    problems.extend(specs::check(&sources));
    for (path, text) in files {
        if workspace.packages.iter().any(|package| package.manifest == *path) {
            problems.extend(manifests::check_manifest(path, text));
        }
        if path == "Cargo.lock" {
            problems.extend(manifests::check_lock(text));
        }
    }
    problems
}
