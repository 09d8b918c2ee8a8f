//! What a provider's error means. Each says it in its own way; what to do about it is the same for all.

mod body;
mod retry_after;
mod words;

use crate::Error;
use std::time::Duration;

pub(crate) use body::{in_json, in_response};
pub(crate) use retry_after::retry_after;
use words::ErrorClass;

/// What a server said about a failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportedError<'a> {
    /// The status of the response, or the one that an error object in a stream gives.
    pub(crate) status: Option<u16>,
    /// Words for programs: a code, a type, a status in capitals; empty where there is none.
    pub(crate) code: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    pub(crate) retry_after: Option<Duration>,
}

/// Words tell more than a status: a 400 may be a conversation that is too long, a 429 a quota that no wait refills.
pub(crate) fn classify(provider: &str, fault: &ReportedError<'_>) -> Error {
    let (provider, message) = (provider.to_owned(), said(fault));
    let class = words::plain(fault)
        .or_else(|| fault.status.map(by_status))
        .or_else(|| words::vague(fault))
        .unwrap_or(ErrorClass::Transient);
    match class {
        ErrorClass::Auth => Error::Auth { provider, message },
        ErrorClass::Quota => Error::Quota { provider, message },
        ErrorClass::RateLimited => Error::RateLimited { provider, message, retry_after: fault.retry_after },
        ErrorClass::Overflow => Error::ContextOverflow { provider, message },
        ErrorClass::Refused => Error::Refused { provider, message },
        ErrorClass::Missing => {
            Error::BadRequest { provider, message: format!("there is no such model or address: {message}") }
        }
        ErrorClass::BadRequest => Error::BadRequest { provider, message },
        ErrorClass::Transient => {
            Error::Transient { provider, message, retry_after: fault.retry_after, source: None }
        }
    }
}

fn by_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Quota,
        404 => ErrorClass::Missing,
        413 => ErrorClass::Overflow,
        429 => ErrorClass::RateLimited,
        // Too slow, in each other's way, or too early: the next may pass.
        408 | 409 | 425 => ErrorClass::Transient,
        400..=499 | 501 | 505 => ErrorClass::BadRequest,
        _ => ErrorClass::Transient,
    }
}

/// The message, or what stands for it.
fn said(fault: &ReportedError<'_>) -> String {
    let words = [fault.message, fault.code, fault.kind];
    let said = words.into_iter().map(str::trim).find(|text| !text.is_empty());
    match (said, fault.status) {
        (Some(said), _) => said.to_owned(),
        (None, Some(status)) => format!("HTTP {status}, without a reason"),
        (None, None) => "it gives no reason".to_owned(),
    }
}

#[cfg(test)]
mod tests;
