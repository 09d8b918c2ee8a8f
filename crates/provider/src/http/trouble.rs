//! What can go wrong between here and a server, as the port's errors, without an address's query and without secrets.

use super::body::{ResponseBody, ResponseHead};
use crate::{
    Error,
    classify::{self, ReportedError, retry_after},
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

/// The longest text of a failure that is read, in bytes.
const SHORT: usize = 64 << 10;

/// How long the reason of a failure may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The request did not get through.
pub(super) fn unsent(provider: String, url: &Url, error: reqwest::Error) -> Error {
    let place = origin(url);
    let error = error.without_url();
    let cause = root_cause(&error);
    if error.is_builder() {
        return Error::Setup { provider, message: cause };
    }
    if let Some(doubt) = distrust(&error) {
        let message = format!(
            "the certificate of {place} is not trusted ({doubt}); a private authority's certificate can be given as ca_file"
        );
        return Error::Setup { provider, message };
    }
    let message = if error.is_timeout() {
        format!("no connection to {place} in time")
    } else if error.is_connect() {
        format!("no connection to {place}: {cause}")
    } else {
        format!("the request broke off: {cause}")
    };
    Error::Transient { provider, message, retry_after: None, source: None }
}

/// The answer broke off.
pub(super) fn cut_off(provider: String, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let message = format!("the connection broke off: {}", root_cause(&error));
    Error::Transient { provider, message, retry_after: None, source: None }
}

/// The server said no.
pub(super) async fn refusal(
    ResponseHead { status, headers }: &ResponseHead,
    mut body: ResponseBody,
) -> Error {
    if status.is_redirection() {
        return Error::Setup { provider: body.provider, message: redirected(headers) };
    }
    body.idle = body.idle.min(PATIENCE);
    let text = body.rest(Vec::new(), SHORT).await;
    let wait = retry_after(|name| headers.get(name)?.to_str().ok(), SystemTime::now());
    let status = status.as_u16();
    let json = serde_json::from_slice::<Value>(&text).ok();
    let told = json.and_then(|json| classify::in_response(&body.provider, Some(status), wait, &json));
    told.unwrap_or_else(|| {
        let message = if is_page(headers) { format!("HTTP {status}: {PAGE}") } else { plain(&text) };
        let fault = ReportedError {
            status: Some(status),
            message: &message,
            retry_after: wait,
            ..ReportedError::default()
        };
        classify::classify(&body.provider, &fault)
    })
}

const PAGE: &str = "a web page came instead of an answer; is base_url right, or does a proxy want a sign-in?";

/// A page under a status that says success.
pub(super) fn page(provider: String) -> Error {
    Error::Protocol { provider, message: PAGE.to_owned() }
}

/// JSON that came in place of a stream: an error under a status that says success, or an answer in one piece.
pub(super) async fn one_piece(mut body: ResponseBody, begun: Vec<u8>) -> Error {
    let text = body.rest(begun, SHORT).await;
    let error =
        serde_json::from_slice(&text).ok().and_then(|json| classify::in_json(&body.provider, None, &json));
    error.unwrap_or_else(|| Error::Protocol {
        provider: body.provider,
        message: "JSON in one piece came instead of a stream; the server seems to ignore `stream`".to_owned(),
    })
}

pub(super) fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/html")
}

/// Where to, without what may be secret in the address.
fn redirected(headers: &HeaderMap) -> String {
    let target = headers.get(LOCATION).and_then(|target| Url::parse(target.to_str().ok()?).ok());
    let place = target.map_or("another address".to_owned(), |url| format!("{}{}", origin(&url), url.path()));
    format!("the server redirects to {place}; set base_url to the address that it really has")
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Text for people, in one line.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and all that caused it. What an error of a socket wraps is one of them.
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

/// What was at the bottom of it.
pub fn root_cause(error: &(dyn error::Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Why a certificate was not trusted, if that is what went wrong.
fn distrust(error: &(dyn error::Error + 'static)) -> Option<String> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(doubt)) => Some(doubt.to_string()),
        Some(_) | None => None,
    })
}
