//! Errors of a model call, and whether a retry can help.

use crate::Omission;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{provider} rejected the API key: {message}")]
    Auth { provider: String, message: String },
    #[error("the quota at {provider} is exhausted: {message}")]
    Quota { provider: String, message: String },
    #[error("rate limit at {provider} reached: {message}")]
    RateLimited { provider: String, message: String, retry_after: Option<Duration> },
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow { provider: String, message: String },
    #[error("{provider} declined to answer: {message}")]
    Refused { provider: String, message: String },
    /// The provider's filter removed the answer before any of it arrived.
    #[error("{provider} filtered the answer: {message}")]
    Filtered { provider: String, code: String, message: String },
    #[error("{provider} sent an empty answer")]
    EmptyAnswer { provider: String },
    #[error("{provider} sent only reasoning and no answer")]
    ReasoningOnly { provider: String },
    #[error("{provider} reached the output limit before the answer began")]
    OutputLimit { provider: String },
    /// The model wrote a tool call that its provider cannot parse.
    #[error("{provider} could not read the model's tool call: {message}")]
    MalformedCall { provider: String, code: String, message: String },
    /// The model, or the URL, does not exist.
    #[error("{provider} rejected the request: {message}")]
    ModelNotFound { provider: String, message: String },
    #[error("{provider} rejected the request: {message}")]
    BadRequest { provider: String, message: String },
    /// The request is rejected for a part that the server does not support; without it the request may succeed.
    #[error("{provider} does not support {what}: {message}")]
    Unsupported { provider: String, message: String, what: Omission },
    #[error("{provider} is temporarily unavailable: {message}")]
    Transient {
        provider: String,
        message: String,
        retry_after: Option<Duration>,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    #[error("{provider} ended the stream before the answer was complete")]
    Truncated { provider: String },
    #[error("{provider} sent a response that cannot be parsed: {message}")]
    Protocol { provider: String, message: String },
    #[error("{provider} sent no data for {after:?}")]
    Stalled { provider: String, after: Duration },
    /// A URL, certificate or header in the configuration is invalid.
    #[error("{provider} is not configured correctly: {message}")]
    Setup { provider: String, message: String },
    /// A failure with a custom code; scripts use it to simulate any error.
    #[error("{message}")]
    Failed { code: String, message: String },
    #[error("script {file}: {message}")]
    Script { file: String, message: String },
}

/// The permitted reaction of a caller that has not shown any output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    Never,
    /// Retry, after this delay if the server gave one.
    After(Option<Duration>),
    /// Retry with a shorter history.
    Shorter,
}

impl Error {
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Transient { retry_after, .. } => {
                RetryAdvice::After(*retry_after)
            }
            Self::Truncated { .. }
            | Self::Stalled { .. }
            | Self::EmptyAnswer { .. }
            | Self::ReasoningOnly { .. }
            | Self::MalformedCall { .. } => RetryAdvice::After(None),
            Self::ContextOverflow { .. } => RetryAdvice::Shorter,
            Self::Auth { .. }
            | Self::Quota { .. }
            | Self::Refused { .. }
            | Self::Filtered { .. }
            | Self::OutputLimit { .. }
            | Self::ModelNotFound { .. }
            | Self::BadRequest { .. }
            | Self::Unsupported { .. }
            | Self::Protocol { .. }
            | Self::Setup { .. }
            | Self::Failed { .. }
            | Self::Script { .. } => RetryAdvice::Never,
        }
    }

    /// The stable error code for logs and for ADK's `errorCode`.
    pub fn code(&self) -> &str {
        match self {
            Self::Auth { .. } => "AUTH",
            Self::Quota { .. } => "QUOTA",
            Self::RateLimited { .. } => "RATE_LIMITED",
            Self::ContextOverflow { .. } => "CONTEXT_OVERFLOW",
            Self::Refused { .. } => "REFUSED",
            Self::EmptyAnswer { .. } => "EMPTY_ANSWER",
            Self::ReasoningOnly { .. } => "REASONING_ONLY",
            // ADK's finish reason.
            Self::OutputLimit { .. } => "MAX_TOKENS",
            Self::ModelNotFound { .. } => "MODEL_NOT_FOUND",
            Self::BadRequest { .. } => "BAD_REQUEST",
            Self::Unsupported { .. } => "UNSUPPORTED",
            Self::Transient { .. } => "TRANSIENT",
            Self::Truncated { .. } => "TRUNCATED",
            Self::Protocol { .. } => "PROTOCOL",
            Self::Stalled { .. } => "STALLED",
            Self::Setup { .. } => "SETUP",
            Self::Script { .. } => "SCRIPT",
            Self::Filtered { code, .. } | Self::MalformedCall { code, .. } | Self::Failed { code, .. } => {
                code
            }
        }
    }

    /// What to leave out of the request.
    pub fn omission(&self) -> Option<&Omission> {
        if let Self::Unsupported { what, .. } = self { Some(what) } else { None }
    }

    /// Replaces the message.
    pub(crate) fn map_message(mut self, change: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            Self::Auth { message, .. }
            | Self::Quota { message, .. }
            | Self::RateLimited { message, .. }
            | Self::ContextOverflow { message, .. }
            | Self::Refused { message, .. }
            | Self::Filtered { message, .. }
            | Self::MalformedCall { message, .. }
            | Self::ModelNotFound { message, .. }
            | Self::BadRequest { message, .. }
            | Self::Unsupported { message, .. }
            | Self::Transient { message, .. }
            | Self::Protocol { message, .. }
            | Self::Setup { message, .. }
            | Self::Failed { message, .. }
            | Self::Script { message, .. } => *message = change(message),
            Self::Truncated { .. }
            | Self::Stalled { .. }
            | Self::EmptyAnswer { .. }
            | Self::ReasoningOnly { .. }
            | Self::OutputLimit { .. } => (),
        }
        self
    }
}
