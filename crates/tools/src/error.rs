//! Errors of tools. A model reads their texts, so each suggests a fix if there is one.

use std::{io, path::PathBuf};

use crate::calculate::ExpressionError;

/// Why a call failed, or why a tool cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    #[error("bad arguments for `{tool}`: {reason}")]
    Arguments { tool: String, reason: String },

    /// The tool ran and failed; the text is the whole message.
    #[error("{0}")]
    Failed(String),

    #[error("the call was cancelled before it finished")]
    Cancelled,

    /// The call was in progress when its process ended, or its question was not answered in time.
    #[error("the call was interrupted, so its outcome is unknown")]
    Interrupted,

    #[error("the artifact `{name}` was not saved: {reason}")]
    Artifact { name: String, reason: String },

    #[error("cannot evaluate the expression: column {column}: {reason}")]
    Expression { column: usize, reason: ExpressionError },

    /// `others` names the roots other than the working directory and continues the sentence.
    #[error("`{path}` {why}; use a relative path inside the working directory{others}")]
    Outside { path: String, why: &'static str, others: String },

    #[error("`{path}` is inside a read-only root and cannot be written")]
    ReadOnly { path: String },

    #[error(
        "`{path}` may contain a secret and cannot be read; [tools] denyRead in lango.toml can make an exception (\"!NAME\")"
    )]
    Denied { path: String },

    #[error("`{path}` does not exist; list_files shows what does")]
    NotFound { path: String },

    /// The path exists, but its file type is wrong.
    #[error("`{path}` is {is}, not {wanted}")]
    WrongKind { path: String, is: &'static str, wanted: &'static str },

    #[error("`{path}` could not be read: {source}")]
    Read { path: String, source: io::Error },

    #[error("`{path}` could not be written: {source}")]
    Write { path: String, source: io::Error },

    /// Another process or person changed the file first.
    #[error("`{path}` has changed since it was read; read it again before you change it")]
    Changed { path: String },

    #[error("`{handle}` is not a handle of a stored output or edit; copy one exactly as a tool returned it")]
    UnknownHandle { handle: String },

    #[error("the output store could not be used: {source}")]
    OutputStore { source: io::Error },

    #[error("{} cannot be used as a root of file tools: {source}; create the directory, or set another in [tools] of lango.toml", path.display())]
    Root { path: PathBuf, source: io::Error },

    #[error(
        "{} is inside {}, and both are roots of file tools; remove one of them",
        inner.display(),
        outer.display()
    )]
    Overlap { inner: PathBuf, outer: PathBuf },

    #[error(
        "two tools are called `{name}`: one from {first}, one from {second}; rename or remove one of them"
    )]
    Duplicate { name: String, first: String, second: String },

    #[error(
        "`{name}` (from {origin}) is not a valid tool name: use a letter or `_` first, then at most 63 letters, digits, `_` or `-`"
    )]
    Name { name: String, origin: String },

    #[error("the parameters of `{name}` (from {origin}) are not a JSON Schema of type `object`")]
    Parameters { name: String, origin: String },
}

impl ToolsError {
    /// A path that leads outside a root.
    pub(crate) fn outside(path: &str, why: &'static str) -> Self {
        Self::Outside { path: path.to_owned(), why, others: String::new() }
    }
}
