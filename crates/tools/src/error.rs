//! Why a call failed. The texts are read by the model, so each says what to do next where there is something to do.

use std::{io, path::PathBuf};

use crate::calculate::Fault;

/// What a tool cannot do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("bad arguments for `{tool}`: {reason}")]
    Arguments { tool: String, reason: String },

    /// The tool ran and its work failed; the text is the whole story.
    #[error("{0}")]
    Failed(String),

    #[error("the call was cancelled before it was done")]
    Cancelled,

    #[error("the artifact `{name}` was not saved: {reason}")]
    Artifact { name: String, reason: String },

    #[error("cannot compute this: column {column}: {fault}")]
    Expression { column: usize, fault: Fault },

    /// `others` are the directories beside the working directory, in words that go on with the sentence.
    #[error(
        "`{path}` {why}; only what lies inside the working directory can be reached, by a relative path{others}"
    )]
    Outside { path: String, why: &'static str, others: String },

    #[error("`{path}` lies in a directory that is there to be read, not written")]
    ReadOnly { path: String },

    #[error("there is no `{path}`; list_files shows what there is")]
    NotFound { path: String },

    /// Something is there, and it is of the wrong kind.
    #[error("`{path}` is {is}, not {wanted}")]
    WrongKind { path: String, is: &'static str, wanted: &'static str },

    #[error("`{path}` could not be read: {source}")]
    Io { path: String, source: io::Error },

    #[error("`{path}` could not be written: {source}")]
    Write { path: String, source: io::Error },

    /// Somebody else was faster.
    #[error("`{path}` has changed since it was read; read it again and decide anew")]
    Changed { path: String },

    #[error("`{handle}` is no handle of something kept here; use one that a tool gave, as it was given")]
    Handle { handle: String },

    #[error("what has to be kept beside the conversation could not be: {source}")]
    Kept { source: io::Error },

    #[error("the directory {} cannot be used as a root of file tools: {source}; make it, or name another in [tools] of lango.toml", path.display())]
    Root { path: PathBuf, source: io::Error },

    #[error(
        "{} lies inside {}, and both are roots of file tools; name one of them",
        inner.display(),
        outer.display()
    )]
    Overlap { inner: PathBuf, outer: PathBuf },

    #[error(
        "two tools are called `{name}`: one from {first}, one from {second}; rename or remove one of them"
    )]
    Duplicate { name: String, first: String, second: String },

    #[error(
        "`{name}` (from {origin}) is no name for a tool: use a letter or `_` first, then at most 63 letters, digits, `_` or `-`"
    )]
    Name { name: String, origin: String },

    #[error("the parameters of `{name}` (from {origin}) are no JSON Schema of type `object`")]
    Parameters { name: String, origin: String },
}

impl Error {
    /// A path that one root does not lead to.
    pub(crate) fn outside(path: &str, why: &'static str) -> Self {
        Self::Outside { path: path.to_owned(), why, others: String::new() }
    }
}
