//! Transport failures and error responses as [`Error`]. Messages contain neither URL queries nor secrets.

use super::body::{ResponseBody, ResponseHead};
use crate::{
    Error,
    classify::{self, ReportedError, retry_after},
    decoding,
};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap, LOCATION},
};
use serde_json::Value;
use std::{
    error, io, iter,
    time::{Duration, SystemTime},
};

/// The maximum number of bytes read from an error response.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The idle timeout for the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The request could not be sent.
pub(super) fn send_failed(provider: String, url: &Url, error: reqwest::Error) -> Error {
    let origin = origin(url);
    let error = error.without_url();
    let cause = root_cause(&error);
    if error.is_builder() {
        return Error::Setup { provider, message: cause };
    }
    if let Some(reason) = untrusted_certificate(&error) {
        let message = format!(
            "the TLS certificate of {origin} is not trusted ({reason}); set ca_file to the certificate of a private CA"
        );
        return Error::Setup { provider, message };
    }
    let message = if error.is_timeout() {
        format!("connecting to {origin} timed out")
    } else if error.is_connect() {
        format!("cannot connect to {origin}: {cause}")
    } else {
        format!("sending the request failed: {cause}")
    };
    Error::Transient { provider, message, retry_after: None, source: None }
}

/// The connection failed while the response was read.
pub(super) fn connection_lost(provider: String, error: &reqwest::Error) -> Error {
    // The operating system's errors are clear; those of the HTTP client describe its parser.
    let system_error = causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .find(|cause| cause.raw_os_error().is_some());
    let reason = match system_error {
        Some(cause) => cause.kind().to_string(),
        None => "the server closed it before the end of the answer".to_owned(),
    };
    let message = format!("the connection was lost: {reason}");
    Error::Transient { provider, message, retry_after: None, source: None }
}

/// The server answered with an error status.
pub(super) async fn error_status(
    ResponseHead { status, headers }: &ResponseHead,
    mut body: ResponseBody,
) -> Error {
    if status.is_redirection() {
        return Error::Setup { provider: body.provider, message: redirect_message(headers) };
    }
    body.idle = body.idle.min(ERROR_BODY_TIMEOUT);
    let text = body.read_rest(Vec::new(), MAX_ERROR_BODY).await;
    let delay = retry_after(|name| headers.get(name)?.to_str().ok(), SystemTime::now());
    let status = status.as_u16();
    let json = serde_json::from_slice::<Value>(&text).ok();
    let reported =
        json.and_then(|json| classify::error_in_response(&body.provider, Some(status), delay, &json));
    reported.unwrap_or_else(|| {
        let message =
            if is_html(headers) { format!("HTTP {status}: {HTML_MESSAGE}") } else { single_line(&text) };
        let error = ReportedError {
            status: Some(status),
            message: &message,
            retry_after: delay,
            ..ReportedError::default()
        };
        classify::classify(&body.provider, &error)
    })
}

const HTML_MESSAGE: &str =
    "received an HTML page instead of an API response; check base_url, and whether a proxy requires a login";

/// An HTML page with a success status.
pub(super) fn html_page(provider: String) -> Error {
    Error::Protocol { provider, message: HTML_MESSAGE.to_owned() }
}

/// The maximum size of a response that is not streamed.
const MAX_BODY: usize = 64 << 20;

/// The JSON documents in place of a stream: an error object, a response that is not streamed, or an array of chunks.
pub(super) async fn json_documents(body: &mut ResponseBody, start: Vec<u8>) -> Result<Vec<String>, Error> {
    let text = body.read_rest(start, MAX_BODY).await;
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_slice(&text).into_iter::<Value>() {
        let provider = || body.provider.clone();
        match document {
            Ok(Value::Array(chunks)) => documents.extend(chunks),
            Ok(document) => documents.push(document),
            Err(error) if error.is_eof() => return Err(Error::Truncated { provider: provider() }),
            Err(_) => return Err(decoding::parse_error(&provider(), &single_line(&text))),
        }
    }
    let errors = documents.iter().filter_map(|json| classify::error_in_json(&body.provider, None, json));
    match errors.take(1).next() {
        Some(error) => Err(error),
        None => Ok(documents.iter().map(Value::to_string).collect()),
    }
}

pub(super) fn is_html(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("text/html")
}

/// The redirect target without its query, which may contain secrets.
fn redirect_message(headers: &HeaderMap) -> String {
    let url = headers.get(LOCATION).and_then(|target| Url::parse(target.to_str().ok()?).ok());
    let target = url.map_or("another address".to_owned(), |url| format!("{}{}", origin(&url), url.path()));
    format!("the server redirects to {target}; set base_url to the final address")
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Collapses a text to one line without control characters.
fn single_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The chain of causes, including the error that an `io::Error` wraps.
fn causes<'a>(
    error: &'a (dyn error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn error::Error + 'static)> {
    iter::successors(Some(error), |error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

/// The message of the innermost cause.
pub fn root_cause(error: &(dyn error::Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Why a certificate was rejected, if that is the cause.
fn untrusted_certificate(error: &(dyn error::Error + 'static)) -> Option<String> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(reason)) => Some(reason.to_string()),
        Some(_) | None => None,
    })
}
