//! Maps a provider's error to [`Error`]. Each provider has its own vocabulary; the reactions are the same for all.

mod error_body;
mod missing_model;
mod patterns;
mod retry_after;
mod too_long;

use crate::Error;
use std::time::Duration;

pub(crate) use error_body::{error_in_json, error_in_response};
use patterns::ErrorClass;
pub(crate) use retry_after::retry_after;

/// The error that a server reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportedError<'a> {
    /// The HTTP status, or the status inside an error object of a stream.
    pub(crate) status: Option<u16>,
    /// Machine-readable identifiers, such as `rate_limit_exceeded` or `RESOURCE_EXHAUSTED`; empty if absent.
    pub(crate) code: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    pub(crate) retry_after: Option<Duration>,
}

/// Codes and phrases take precedence over the status: a 400 may be a context overflow, a 429 an exhausted quota.
pub(crate) fn classify(provider: &str, reported: &ReportedError<'_>) -> Error {
    let (provider, message) = (provider.to_owned(), message_of(reported));
    let class = match patterns::unambiguous(reported) {
        // A code such as `rate_limit_exceeded` is less specific than the message.
        None | Some(ErrorClass::RateLimited | ErrorClass::BadRequest) if too_long::is_too_long(reported) => {
            Some(ErrorClass::Overflow)
        }
        None if missing_model::is_missing_model(reported) => Some(ErrorClass::Missing),
        class => class,
    };
    let class = class
        .or_else(|| reported.status.map(class_of_status))
        .or_else(|| patterns::ambiguous(reported))
        .unwrap_or(ErrorClass::Transient);
    match class {
        ErrorClass::Auth => Error::Auth { provider, message },
        ErrorClass::Quota => Error::Quota { provider, message },
        ErrorClass::RateLimited => {
            Error::RateLimited { provider, message, retry_after: reported.retry_after }
        }
        ErrorClass::Overflow => Error::ContextOverflow { provider, message },
        ErrorClass::Refused => Error::Refused { provider, message },
        ErrorClass::Missing => {
            Error::ModelNotFound { provider, message: format!("no such model or URL: {message}") }
        }
        ErrorClass::BadRequest => Error::BadRequest { provider, message },
        ErrorClass::Transient => {
            Error::Transient { provider, message, retry_after: reported.retry_after, source: None }
        }
    }
}

fn class_of_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Quota,
        404 | 410 => ErrorClass::Missing,
        413 => ErrorClass::Overflow,
        429 => ErrorClass::RateLimited,
        // Timeout, conflict or too early: a retry may succeed.
        408 | 409 | 425 => ErrorClass::Transient,
        400..=499 | 501 | 505 => ErrorClass::BadRequest,
        _ => ErrorClass::Transient,
    }
}

/// The reported message, or a substitute.
fn message_of(reported: &ReportedError<'_>) -> String {
    let candidates = [reported.message, reported.code, reported.kind];
    let message = candidates.into_iter().map(str::trim).find(|text| !text.is_empty());
    match (message, reported.status) {
        (Some(message), _) => message.to_owned(),
        (None, Some(status)) => format!("HTTP {status} without an error message"),
        (None, None) => "no error message given".to_owned(),
    }
}

#[cfg(test)]
mod tests;
