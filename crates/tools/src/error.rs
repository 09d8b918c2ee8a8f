//! Why a call failed. The texts are read by the model, so each says what to do next where there is something to do.

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
