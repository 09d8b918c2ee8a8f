//! The error in a JSON body, in the shapes of all providers.

use super::{ReportedError, classify, retry_after::parse_seconds};
use crate::Error;
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

/// The error in a body or in a frame of a stream, if it holds one.
pub(crate) fn in_json(provider: &str, status: Option<u16>, body: &Value) -> Option<Error> {
    in_response(provider, status, None, body)
}

/// As [`in_json`], with the wait that the headers ask for.
pub(crate) fn in_response(
    provider: &str,
    status: Option<u16>,
    retry_after: Option<Duration>,
    body: &Value,
) -> Option<Error> {
    let status = status.filter(|status| *status >= 400);
    let error = find(body, status.is_some())?;
    let details = GoogleErrorDetails::of(error);
    let fault = ReportedError {
        status: status.or_else(|| error.get("code").and_then(number)),
        code: details.reason.unwrap_or_else(|| text(error, &["code"])),
        kind: text(error, &["type", "status"]),
        message: &message(error),
        retry_after: retry_after.or(details.retry_after),
    };
    Some(classify(provider, &fault))
}

/// What says `error`. A body that came with an error's status may be one itself.
fn find(body: &Value, failed: bool) -> Option<&Value> {
    // Gemini without server-sent events answers with a list.
    let body = body.get(0).unwrap_or(body);
    let says_so = ["type", "object"].iter().any(|key| body.get(key).is_some_and(|word| word == "error"));
    let bare = || Some(body).filter(|_| says_so || failed).filter(|body| !message(body).is_empty());
    body.get("error").filter(|error| !error.is_null()).or_else(bare)
}

fn text<'a>(error: &'a Value, keys: &[&str]) -> &'a str {
    let mut texts = keys.iter().filter_map(|key| error.get(key).and_then(Value::as_str));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

/// A status where others have a word.
fn number(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// The message; a gateway adds what the server behind it said, and a validator gives a list.
fn message(error: &Value) -> Cow<'_, str> {
    let said = error.as_str().unwrap_or_else(|| text(error, &["message", "detail"]));
    match (error.pointer("/metadata/raw").and_then(Value::as_str), error.get("detail")) {
        (Some(raw), _) => format!("{said}: {raw}").into(),
        (None, Some(detail @ Value::Array(_))) if said.is_empty() => detail.to_string().into(),
        _ => said.into(),
    }
}

/// What Google adds to an error.
#[derive(Default)]
struct GoogleErrorDetails<'a> {
    reason: Option<&'a str>,
    retry_after: Option<Duration>,
}

impl<'a> GoogleErrorDetails<'a> {
    fn of(error: &'a Value) -> Self {
        let mut all = Self::default();
        for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
            let text = |key| detail.get(key).and_then(Value::as_str);
            all.reason = all.reason.or_else(|| text("reason")).or_else(|| spent_for_today(detail));
            all.retry_after =
                all.retry_after.or_else(|| parse_seconds(text("retryDelay")?.strip_suffix('s')?));
        }
        all
    }
}

/// A daily limit comes with a short wait all the same, which does not help.
fn spent_for_today(detail: &Value) -> Option<&'static str> {
    let violations = detail.get("violations")?.as_array()?;
    let mut ids = violations.iter().filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.any(|id| id.contains("PerDay")).then_some("quota_per_day")
}
