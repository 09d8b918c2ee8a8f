//! What can go wrong with a model call, as types, and whether to try again.

use std::time::Duration;

type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{provider} refuses the key: {message}")]
    Auth { provider: String, message: String },
    #[error("the quota at {provider} is used up: {message}")]
    Quota { provider: String, message: String },
    #[error("{provider} asks to slow down: {message}")]
    RateLimited { provider: String, message: String, retry_after: Option<Duration> },
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow { provider: String, message: String },
    #[error("{provider} refuses to answer this: {message}")]
    Refused { provider: String, message: String },
    #[error("{provider} does not accept the request: {message}")]
    BadRequest { provider: String, message: String },
    #[error("{provider} is not available right now: {message}")]
    Transient { provider: String, message: String, retry_after: Option<Duration>, source: Option<Cause> },
    #[error("{provider} ended its answer before it was complete")]
    Truncated { provider: String },
    #[error("{provider} answered with something that cannot be read: {message}")]
    Protocol { provider: String, message: String },
    #[error("{provider} has been silent for {after:?}")]
    Stalled { provider: String, after: Duration },
    /// The configuration names what cannot be used: an address, a certificate, a header.
    #[error("{provider} cannot be reached as it is configured: {message}")]
    Setup { provider: String, message: String },
    /// A failure with a code of its own; scripts use it to play any.
    #[error("{message}")]
    Failed { code: String, message: String },
    #[error("the script {file}: {message}")]
    Script { file: String, message: String },
}

/// What a caller that has shown nothing yet may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    Never,
    /// Again, after this wait if it is known.
    After(Option<Duration>),
    /// Again with less history.
    Shorter,
}

impl Error {
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Transient { retry_after, .. } => {
                RetryAdvice::After(*retry_after)
            }
            Self::Truncated { .. } | Self::Stalled { .. } => RetryAdvice::After(None),
            Self::ContextOverflow { .. } => RetryAdvice::Shorter,
            Self::Auth { .. }
            | Self::Quota { .. }
            | Self::Refused { .. }
            | Self::BadRequest { .. }
            | Self::Protocol { .. }
            | Self::Setup { .. }
            | Self::Failed { .. }
            | Self::Script { .. } => RetryAdvice::Never,
        }
    }

    /// A short word for logs and for ADK's `errorCode`.
    pub fn code(&self) -> &str {
        match self {
            Self::Auth { .. } => "AUTH",
            Self::Quota { .. } => "QUOTA",
            Self::RateLimited { .. } => "RATE_LIMITED",
            Self::ContextOverflow { .. } => "CONTEXT_OVERFLOW",
            Self::Refused { .. } => "REFUSED",
            Self::BadRequest { .. } => "BAD_REQUEST",
            Self::Transient { .. } => "TRANSIENT",
            Self::Truncated { .. } => "TRUNCATED",
            Self::Protocol { .. } => "PROTOCOL",
            Self::Stalled { .. } => "STALLED",
            Self::Setup { .. } => "SETUP",
            Self::Script { .. } => "SCRIPT",
            Self::Failed { code, .. } => code,
        }
    }

    /// The same, said in other words.
    pub(crate) fn reworded(mut self, reword: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            Self::Auth { message, .. }
            | Self::Quota { message, .. }
            | Self::RateLimited { message, .. }
            | Self::ContextOverflow { message, .. }
            | Self::Refused { message, .. }
            | Self::BadRequest { message, .. }
            | Self::Transient { message, .. }
            | Self::Protocol { message, .. }
            | Self::Setup { message, .. }
            | Self::Failed { message, .. }
            | Self::Script { message, .. } => *message = reword(message),
            Self::Truncated { .. } | Self::Stalled { .. } => (),
        }
        self
    }
}
