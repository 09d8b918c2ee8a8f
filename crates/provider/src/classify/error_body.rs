//! Finds the error in a JSON body, in the shapes of all providers.

use super::{ReportedError, classify, retry_after::parse_seconds};
use crate::Error;
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

/// The error in a body or in a frame, if it contains one.
pub(crate) fn error_in_json(provider: &str, status: Option<u16>, body: &Value) -> Option<Error> {
    error_in_response(provider, status, None, body)
}

/// Like [`error_in_json`], with the delay of the response headers.
pub(crate) fn error_in_response(
    provider: &str,
    status: Option<u16>,
    retry_after: Option<Duration>,
    body: &Value,
) -> Option<Error> {
    let status = status.filter(|status| *status >= 400);
    let error = find_error(body, status.is_some())?;
    let details = GoogleErrorDetails::parse(error);
    let reported = ReportedError {
        status: status.or_else(|| error.get("code").and_then(http_status)),
        code: details.reason.unwrap_or_else(|| string_field(error, &["code"])),
        kind: string_field(error, &["type", "status"]),
        message: &message_of(error),
        retry_after: retry_after.or(details.retry_after),
    };
    Some(classify(provider, &reported))
}

/// Finds the error object. A body with an error status may itself be the object.
fn find_error(body: &Value, failed: bool) -> Option<&Value> {
    // Gemini without SSE answers with an array.
    let body = body.get(0).unwrap_or(body);
    let is_marked = ["type", "object"].iter().any(|key| body.get(key).is_some_and(|value| value == "error"));
    let bare = || Some(body).filter(|_| is_marked || failed).filter(|body| !message_of(body).is_empty());
    body.get("error").filter(|error| !is_empty(error)).or_else(bare)
}

/// Whether a field says that there is no error.
fn is_empty(error: &Value) -> bool {
    error.is_null() || *error == false || *error == ""
}

fn string_field<'a>(error: &'a Value, keys: &[&str]) -> &'a str {
    let mut texts = keys.iter().filter_map(|key| error.get(key).and_then(Value::as_str));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

/// A numeric code in the range of HTTP errors.
fn http_status(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// The message. A gateway adds the upstream message as `metadata.raw`; FastAPI sends an array in `detail`. A parameter that
/// only `param` names is appended, with the code.
fn message_of(error: &Value) -> Cow<'_, str> {
    let message = error.as_str().unwrap_or_else(|| string_field(error, &["message", "detail"]));
    let param = string_field(error, &["param"]);
    if !param.is_empty() && !message.is_empty() && !message.contains(param) {
        let code = string_field(error, &["code", "type"]);
        return format!("{message} (`{param}`: {code})").into();
    }
    match (error.pointer("/metadata/raw").and_then(Value::as_str), error.get("detail")) {
        (Some(raw), _) => format!("{message}: {raw}").into(),
        (None, Some(detail @ Value::Array(_))) if message.is_empty() => detail.to_string().into(),
        _ => message.into(),
    }
}

/// The `details` of a Google API error.
#[derive(Default)]
struct GoogleErrorDetails<'a> {
    reason: Option<&'a str>,
    retry_after: Option<Duration>,
}

impl<'a> GoogleErrorDetails<'a> {
    fn parse(error: &'a Value) -> Self {
        let mut all = Self::default();
        for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
            let string_field = |key| detail.get(key).and_then(Value::as_str);
            all.reason = all.reason.or_else(|| string_field("reason")).or_else(|| daily_quota(detail));
            all.retry_after =
                all.retry_after.or_else(|| parse_seconds(string_field("retryDelay")?.strip_suffix('s')?));
        }
        all
    }
}

/// A daily quota is reported with a short retry delay, which does not help.
fn daily_quota(detail: &Value) -> Option<&'static str> {
    let violations = detail.get("violations")?.as_array()?;
    let mut ids = violations.iter().filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.any(|id| id.contains("PerDay")).then_some("quota_per_day")
}
