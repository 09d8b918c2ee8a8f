//! Failures that a script can play: each of the port's errors by its kind, or any other by a code of its own.

use crate::Error;
use serde::Deserialize;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct Failure {
    kind: Kind,
    message: String,
}

#[derive(Debug)]
enum Kind {
    Named(Name),
    RateLimited { retry_after: Option<Duration> },
    Stalled { after: Duration },
    Code(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
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
struct Written {
    kind: Option<Name>,
    code: Option<String>,
    #[serde(default)]
    message: String,
    /// Seconds; for `rate_limited`.
    retry_after: Option<f64>,
    /// Seconds; for `stalled`.
    after: Option<f64>,
}

impl TryFrom<Written> for Failure {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { kind, code, message, retry_after, after } = written;
        if retry_after.is_some() && kind != Some(Name::RateLimited) {
            return Err("`retry_after` belongs to `kind: rate_limited`");
        }
        if after.is_some() && kind != Some(Name::Stalled) {
            return Err("`after` belongs to `kind: stalled`");
        }
        let kind = match (kind, code) {
            (Some(Name::RateLimited), None) => {
                Kind::RateLimited { retry_after: retry_after.map(seconds).transpose()? }
            }
            (Some(Name::Stalled), None) => Kind::Stalled { after: seconds(after.unwrap_or_default())? },
            (Some(name), None) => Kind::Named(name),
            (None, Some(code)) => Kind::Code(code),
            (None, None) | (Some(_), Some(_)) => return Err("a failure has either a `kind` or a `code`"),
        };
        Ok(Self { kind, message })
    }
}

fn seconds(number: f64) -> Result<Duration, &'static str> {
    Duration::try_from_secs_f64(number).map_err(|_| "not a number of seconds")
}

impl Failure {
    pub(super) fn error(&self) -> Error {
        let (provider, message) = ("scripted".to_owned(), self.message.clone());
        match &self.kind {
            Kind::Code(code) => Error::Failed { code: code.clone(), message },
            Kind::RateLimited { retry_after } => {
                Error::RateLimited { provider, message, retry_after: *retry_after }
            }
            Kind::Stalled { after } => Error::Stalled { provider, after: *after },
            Kind::Named(name) => match name {
                Name::Auth => Error::Auth { provider, message },
                Name::Quota => Error::Quota { provider, message },
                Name::RateLimited => Error::RateLimited { provider, message, retry_after: None },
                Name::Overflow => Error::ContextOverflow { provider, message },
                Name::BadRequest => Error::BadRequest { provider, message },
                Name::Transient => Error::Transient { provider, message, retry_after: None, source: None },
                Name::Truncated => Error::Truncated { provider },
                Name::Protocol => Error::Protocol { provider, message },
                Name::Stalled => Error::Stalled { provider, after: Duration::ZERO },
            },
        }
    }
}
