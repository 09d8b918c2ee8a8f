//! Failures in a script: an error of the port by its kind, or any other error by a custom code.

use crate::Error;
use serde::Deserialize;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(try_from = "FailureYaml")]
pub(super) struct ScriptFailure {
    kind: FailureKind,
    message: String,
}

#[derive(Debug)]
enum FailureKind {
    Named(FailureName),
    RateLimited { retry_after: Option<Duration> },
    Stalled { after: Duration },
    Code(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureName {
    Auth,
    Quota,
    RateLimited,
    Overflow,
    BadRequest,
    Transient,
    Truncated,
    Protocol,
    Stalled,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureYaml {
    kind: Option<FailureName>,
    code: Option<String>,
    #[serde(default)]
    message: String,
    /// Seconds, for `rate_limited`.
    retry_after: Option<f64>,
    /// Seconds, for `stalled`.
    after: Option<f64>,
}

impl TryFrom<FailureYaml> for ScriptFailure {
    type Error = &'static str;

    fn try_from(yaml: FailureYaml) -> Result<Self, Self::Error> {
        let FailureYaml { kind, code, message, retry_after, after } = yaml;
        if retry_after.is_some() && kind != Some(FailureName::RateLimited) {
            return Err("`retry_after` is valid only with `kind: rate_limited`");
        }
        if after.is_some() && kind != Some(FailureName::Stalled) {
            return Err("`after` is valid only with `kind: stalled`");
        }
        let kind = match (kind, code) {
            (Some(FailureName::RateLimited), None) => {
                FailureKind::RateLimited { retry_after: retry_after.map(duration).transpose()? }
            }
            (Some(FailureName::Stalled), None) => {
                FailureKind::Stalled { after: duration(after.unwrap_or_default())? }
            }
            (Some(name), None) => FailureKind::Named(name),
            (None, Some(code)) => FailureKind::Code(code),
            (None, None) | (Some(_), Some(_)) => return Err("a failure needs either `kind` or `code`"),
        };
        Ok(Self { kind, message })
    }
}

fn duration(number: f64) -> Result<Duration, &'static str> {
    Duration::try_from_secs_f64(number).map_err(|_| "not a valid number of seconds")
}

impl ScriptFailure {
    pub(super) fn to_error(&self) -> Error {
        let (provider, message) = ("scripted".to_owned(), self.message.clone());
        match &self.kind {
            FailureKind::Code(code) => Error::Failed { code: code.clone(), message },
            FailureKind::RateLimited { retry_after } => {
                Error::RateLimited { provider, message, retry_after: *retry_after }
            }
            FailureKind::Stalled { after } => Error::Stalled { provider, after: *after },
            FailureKind::Named(name) => match name {
                FailureName::Auth => Error::Auth { provider, message },
                FailureName::Quota => Error::Quota { provider, message },
                FailureName::RateLimited => Error::RateLimited { provider, message, retry_after: None },
                FailureName::Overflow => Error::ContextOverflow { provider, message },
                FailureName::BadRequest => Error::BadRequest { provider, message },
                FailureName::Transient => {
                    Error::Transient { provider, message, retry_after: None, source: None }
                }
                FailureName::Truncated => Error::Truncated { provider },
                FailureName::Protocol => Error::Protocol { provider, message },
                FailureName::Stalled => Error::Stalled { provider, after: Duration::ZERO },
            },
        }
    }
}
