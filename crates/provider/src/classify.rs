//! What a provider's error means. Each says it in its own way; what to do about it is the same for all.

use crate::Error;
use serde_json::Value;
use std::time::Duration;

/// What a server said about a failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fault<'a> {
    /// The status of the response, or the one that an error object in a stream gives.
    pub(crate) status: Option<u16>,
    /// Words for programs: a code, a type, a status in capitals; empty where there is none.
    pub(crate) code: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    pub(crate) retry_after: Option<Duration>,
}

pub(crate) fn classify(provider: &str, fault: &Fault<'_>) -> Error {
    let (provider, message) = (provider.to_owned(), fault.message.to_owned());
    match fault.status {
        Some(401 | 403) => Error::Auth { provider, message },
        Some(429) => Error::RateLimited { provider, message, retry_after: fault.retry_after },
        Some(400..=499) => Error::BadRequest { provider, message },
        Some(_) | None => Error::Transient { provider, message, source: None },
    }
}

/// The error in a body or in a frame of a stream, if it holds one: `{"error": {…}}` in the shapes of all providers.
pub(crate) fn in_json(provider: &str, status: Option<u16>, body: &Value) -> Option<Error> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = error.as_str().unwrap_or_else(|| text("message"));
    Some(classify(
        provider,
        &Fault { status, code: text("code"), kind: text("type"), message, retry_after: None },
    ))
}
