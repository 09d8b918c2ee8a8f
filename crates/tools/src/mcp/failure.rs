//! Errors of the protocol library by their kind, in sentences for a person or a model.
//!
//! A sentence completes one that names the server and the operation. It quotes what the server or the operating system
//! reports, and no text of a library.

use std::{error::Error, io};

use rmcp::{
    ServiceError,
    model::ErrorData,
    service::ClientInitializeError,
    transport::{streamable_http_client::StreamableHttpError, worker::WorkerQuitReason},
};
use serde_json::error::Category;
use sse_stream::Error as SseError;

use super::content::plain;

pub(super) type HttpTransportError = StreamableHttpError<reqwest::Error>;

const CLOSED: &str = "the connection was closed";
const INTERRUPTED: &str = "the connection was interrupted";
const LATE: &str = "it did not respond in time";
/// What to do about a server that violates the protocol.
const ADVICE: &str = "check that it is an MCP server, and update it";

/// What is wrong with a response over HTTP. The library's errors carry it as the inner error of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseFault {
    #[error("its response is too long")]
    TooLong,
    /// An HTTP status, and the error message in its body.
    #[error("it responded with HTTP status {0}: {1}")]
    Refused(u16, String),
}

impl From<ResponseFault> for io::Error {
    fn from(fault: ResponseFault) -> Self {
        Self::other(fault)
    }
}

/// Why a request has no result.
pub(super) fn request_failure(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => server_message(error),
        ServiceError::TransportSend(error) => transport_failure(&*error.error),
        ServiceError::UnexpectedResponse => format!("its response is not the expected result; {ADVICE}"),
        ServiceError::Timeout { .. } => LATE.to_owned(),
        ServiceError::Cancelled { .. } => "the request was cancelled".to_owned(),
        ServiceError::InputRequiredRoundsExceeded { .. } => "it asked for input too often".to_owned(),
        // The kinds that remain, also those of later versions, end the connection.
        _ => CLOSED.to_owned(),
    }
}

/// Why a server was not initialized.
pub(super) fn start_failure(error: &ClientInitializeError) -> String {
    use ClientInitializeError as Fault;
    match error {
        Fault::TransportError { error, .. } => transport_failure(&*error.error),
        Fault::LegacyFallbackFailed { fallback, .. } => start_failure(fallback),
        Fault::JsonRpcError(error) => format!("it refused to initialize: {}", server_message(error)),
        Fault::ConnectionClosed(_) => "it closed the connection before it was initialized".to_owned(),
        Fault::ConflictInitResponseId(..) | Fault::UncorrelatedErrorResponse { .. } => {
            format!("its response to `initialize` has the id of another request; {ADVICE}")
        }
        Fault::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<String> =
                server_supported.iter().map(|version| format!("`{}`", plain(version.as_str()))).collect();
            format!("lango supports none of its protocol versions ({}); update it", versions.join(", "))
        }
        Fault::Cancelled => "its start was cancelled".to_owned(),
        // The kinds that remain, also those of later versions, are about the response.
        _ => format!("its response to `initialize` is not the expected result; {ADVICE}"),
    }
}

/// Why a message was not sent, or its response not received.
pub(super) fn transport_failure(error: &(dyn Error + 'static)) -> String {
    if let Some(error) = find_http_error(error) {
        return http_failure(error);
    }
    find::<io::Error>(error).map_or_else(|| CLOSED.to_owned(), io_failure)
}

/// The error of the HTTP transport among an error and its causes.
pub(super) fn find_http_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a HttpTransportError> {
    // The library does not name it as the source.
    match find::<WorkerQuitReason<HttpTransportError>>(error) {
        Some(WorkerQuitReason::Fatal { error, .. }) => Some(error),
        _ => find(error),
    }
}

/// The first error of a type among an error and its causes.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// The message of a server's error.
pub(super) fn server_message(error: &ErrorData) -> String {
    let message = plain(error.message.trim());
    if message.is_empty() { "it gives no reason".to_owned() } else { message }
}

fn http_failure(error: &HttpTransportError) -> String {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            "it requires another Authorization header; set it in its `headers`".to_owned()
        }
        StreamableHttpError::Client(error) => client_failure(error),
        StreamableHttpError::Io(error) => io_failure(error),
        StreamableHttpError::Sse(SseError::Body(error)) => transport_failure(&**error),
        StreamableHttpError::Sse(_) => format!("its stream of events is malformed; {ADVICE}"),
        StreamableHttpError::HttpStatus(error) => format!("it responded with HTTP status {}", error.status),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or_else(|| "none".to_owned(), |kind| format!("`{}`", plain(kind)));
            format!("its response is neither JSON nor a stream of events (content type: {kind}); {ADVICE}")
        }
        StreamableHttpError::Deserialize(error) => format!("{}; {ADVICE}", json_failure(error)),
        StreamableHttpError::SessionExpired => "its session has expired".to_owned(),
        StreamableHttpError::ReinitializationFailed(error) => server_message(error),
        StreamableHttpError::SessionRecoveryTimeout | StreamableHttpError::ControlRequestTimeout => {
            LATE.to_owned()
        }
        StreamableHttpError::UnexpectedEndOfStream => INTERRUPTED.to_owned(),
        StreamableHttpError::TransportChannelClosed | StreamableHttpError::TokioJoinError(_) => {
            CLOSED.to_owned()
        }
        // The kinds that remain, also those of later versions, are about the response.
        _ => format!("its response violates the protocol; {ADVICE}"),
    }
}

fn json_failure(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        Category::Eof => "its response is incomplete",
        Category::Syntax => "its response is not valid JSON",
        Category::Data => "its response is not a message of the protocol",
        Category::Io => INTERRUPTED,
    }
}

fn client_failure(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return LATE.to_owned();
    }
    if error.is_connect() {
        // Names that do not resolve and certificates that are not trusted.
        return crate::http::root_cause(error);
    }
    find::<io::Error>(error).map_or_else(|| INTERRUPTED.to_owned(), io_failure)
}

fn io_failure(error: &io::Error) -> String {
    let Some(inner) = error.get_ref() else {
        let from_system = error.raw_os_error().map(|_| error.to_string());
        return from_system.unwrap_or_else(|| INTERRUPTED.to_owned());
    };
    if let Some(fault) = inner.downcast_ref::<ResponseFault>() {
        return plain(&fault.to_string());
    }
    match inner.downcast_ref::<reqwest::Error>() {
        Some(error) => client_failure(error),
        None => find::<io::Error>(inner).map_or_else(|| INTERRUPTED.to_owned(), io_failure),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::{model::ClientJsonRpcMessage, transport::DynamicTransportError};
    use testkit::mutation::library_wording;

    use super::*;

    fn sent(error: HttpTransportError) -> String {
        let error = WorkerQuitReason::fatal(error, "send message");
        let error = DynamicTransportError::from_parts("t", std::any::TypeId::of::<()>(), Box::new(error));
        request_failure(&ServiceError::TransportSend(error))
    }

    #[test]
    fn each_kind_of_error_has_a_sentence_without_library_wording() {
        let parse = |text: &str| serde_json::from_str::<ClientJsonRpcMessage>(text).unwrap_err();
        let texts = [
            sent(parse(r#"{"a": "#).into()),
            sent(parse("<html>").into()),
            sent(parse(r#"{"a": 1}"#).into()),
            sent(StreamableHttpError::UnexpectedContentType(Some("text/html".to_owned()))),
            sent(StreamableHttpError::UnexpectedServerResponse("expect json, got Some(1)".into())),
            sent(StreamableHttpError::Io(ResponseFault::TooLong.into())),
            sent(StreamableHttpError::Io(ResponseFault::Refused(400, "no \u{1b}[31mway".to_owned()).into())),
            sent(StreamableHttpError::Sse(SseError::Body(Box::new(io::Error::from(ResponseFault::TooLong))))),
            sent(StreamableHttpError::Sse(SseError::InvalidLine)),
            request_failure(&ServiceError::UnexpectedResponse),
            request_failure(&ServiceError::McpError(ErrorData::internal_error(" ", None))),
            start_failure(&ClientInitializeError::ExpectedInitResult(None)),
            start_failure(&ClientInitializeError::LegacyFallbackFailed {
                discover: Box::new(ClientInitializeError::Cancelled),
                fallback: Box::new(ClientInitializeError::ConnectionClosed("receive".to_owned())),
            }),
        ];
        assert_eq!(texts.iter().find_map(|text| library_wording(text)), None, "{texts:?}");
        insta::assert_snapshot!(texts.join("\n"), @"
        its response is incomplete; check that it is an MCP server, and update it
        its response is not valid JSON; check that it is an MCP server, and update it
        its response is not a message of the protocol; check that it is an MCP server, and update it
        its response is neither JSON nor a stream of events (content type: `text/html`); check that it is an MCP server, and update it
        its response violates the protocol; check that it is an MCP server, and update it
        its response is too long
        it responded with HTTP status 400: no way
        its response is too long
        its stream of events is malformed; check that it is an MCP server, and update it
        its response is not the expected result; check that it is an MCP server, and update it
        it gives no reason
        its response to `initialize` is not the expected result; check that it is an MCP server, and update it
        it closed the connection before it was initialized
        ");
    }
}
