//! The layer around the access checks: metrics, a span and a log line for each request. None of them holds the content of a conversation.

use crate::{guarded_body::GuardedBody, handlers::run::RUN_ID, metrics::method_label, state::ServerState};
use adk::{
    event::now,
    trace::{ActiveSpan, SpanKind, Trace},
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, Response as HttpResponse},
    middleware::Next,
    response::Response,
};
use serde_json::json;
use std::time::{Duration, Instant};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Receives log lines.
pub type LogSink = fn(&str);

/// Continues the client's trace. The span records something only if spans are exported.
fn begin_span(server: &ServerState, request: &Request) -> (ActiveSpan, Trace) {
    let parent = request.headers().get(TRACEPARENT).and_then(|parent| parent.to_str().ok());
    let trace = server.telemetry.continued(parent);
    if !server.telemetry.is_exported() {
        return (Trace::default().begin(SpanKind::Server, String::new), trace);
    }
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let mut span = trace
        .begin(SpanKind::Server, || format!("{method} {}", route.unwrap_or_default()).trim_end().to_owned());
    span.set("http.request.method", method);
    span.set_some("http.route", route);
    let trace = span.trace();
    (span, trace)
}

/// The layer.
pub(crate) async fn instrument(
    State(server): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let path = server.log.map(|_| request.uri().path().to_owned());
    let number = server.metrics.next_request_number();
    let (mut span, trace) = begin_span(&server, &request);
    request.extensions_mut().insert(trace);
    let mut response = next.run(request).await;
    span.set("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.fail(response.status().as_str());
    }
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    server.metrics.count_request(&method, route, response.status(), began.elapsed());
    response.headers_mut().insert(REQUEST_ID, HeaderValue::from(number));
    if let (Some(log), Some(path)) = (server.log, path) {
        log(&format_log_line(&response, &method, &path, began.elapsed(), number));
    }
    if server.telemetry.is_exported() {
        // The span ends with the last byte, or when the client disconnects.
        response = response.map(|body| GuardedBody::wrap(body, span));
    }
    response
}

/// One line of JSON. It omits the query string, which may hold a login code.
fn format_log_line<B>(
    response: &HttpResponse<B>,
    method: &Method,
    path: &str,
    time: Duration,
    number: u64,
) -> String {
    let mut line = json!({
        "time": now(),
        "request": number,
        "method": method.as_str(),
        "path": path,
        "status": response.status().as_u16(),
        "ms": time.as_secs_f64() * 1000.0,
    });
    if let Some(run) = response.headers().get(RUN_ID).and_then(|run| run.to_str().ok()) {
        line["run"] = run.into();
    }
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_names_the_request_and_its_run() {
        let response = HttpResponse::builder().status(200).header(RUN_ID, "r1").body(()).unwrap();
        let line = format_log_line(&response, &Method::POST, "/run", Duration::from_millis(3), 7);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["request"], &line["path"], &line["status"], &line["run"]),
            (&json!(7), &json!("/run"), &json!(200), &json!("r1"))
        );
    }
}
