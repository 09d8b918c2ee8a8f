//! The server seen from outside: what it counts, and a line for each request if that is wanted.
//! Nothing that anybody said is in any of them.

use crate::{handlers::run::RUN_ID, state::Server};
use adk::{
    event::now,
    trace::{ActiveSpan, SpanKind, Trace},
};
use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, Response as HttpResponse, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    pin::Pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Takes a line for each request.
pub type LogLine = fn(&str);

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(String, String, u16), Sum>>,
    last_request: AtomicU64,
    pub(crate) readers: AtomicI64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    time: Duration,
}

const KNOWN: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

impl Metrics {
    fn count(&self, method: &Method, route: &str, status: StatusCode, time: Duration) {
        let key = (route.to_owned(), known(method).to_owned(), status.as_u16());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = requests.entry(key).or_default();
        sum.count += 1;
        sum.time += time;
    }
}

/// A method can be any word, and whoever makes words up must not make us keep them.
fn known(method: &Method) -> &str {
    if method.is_safe() || KNOWN.contains(method) { method.as_str() } else { "other" }
}

/// The trace that a request belongs to, and a span for it if somebody collects them.
fn span(server: &Server, request: &Request) -> (ActiveSpan, Trace) {
    let parent = request.headers().get(TRACEPARENT).and_then(|parent| parent.to_str().ok());
    let trace = server.telemetry.continued(parent);
    if !server.telemetry.is_exported() {
        return (Trace::default().begin(SpanKind::Server, String::new), trace);
    }
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let mut span = trace
        .begin(SpanKind::Server, || format!("{method} {}", route.unwrap_or_default()).trim_end().to_owned());
    span.set("http.request.method", method);
    span.set_some("http.route", route);
    let trace = span.trace();
    (span, trace)
}

/// Stands before all routes.
pub(crate) async fn request(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let path = server.log.map(|_| request.uri().path().to_owned());
    let number = server.metrics.last_request.fetch_add(1, Ordering::Relaxed) + 1;
    let (mut span, trace) = span(&server, &request);
    request.extensions_mut().insert(trace);
    let mut response = next.run(request).await;
    span.set("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.fail(response.status().as_str());
    }
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    server.metrics.count(&method, route, response.status(), began.elapsed());
    response.headers_mut().insert(REQUEST_ID, HeaderValue::from(number));
    if let (Some(log), Some(path)) = (server.log, path) {
        log(&line(&response, &method, &path, began.elapsed(), number));
    }
    if server.telemetry.is_exported() {
        response = response.map(|body| Body::new(Watched { body, _span: span }));
    }
    response
}

/// An answer whose span ends with its last byte, or with the client that does not wait for it.
struct Watched {
    body: Body,
    _span: ActiveSpan,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One line of JSON. The query stays out: it may hold what only its sender should know.
fn line<B>(response: &HttpResponse<B>, method: &Method, path: &str, time: Duration, number: u64) -> String {
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

/// In Prometheus' words.
pub(crate) async fn metrics(State(server): State<Server>) -> Response {
    let mut text = String::new();
    let requests = server.metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
    text.push_str(
        "# HELP lango_requests_total Requests that were answered.\n# TYPE lango_requests_total counter\n",
    );
    for ((route, method, status), sum) in &requests {
        let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
        let _ = writeln!(text, "lango_requests_total{labels} {}", sum.count);
    }
    text.push_str(
        "# HELP lango_request_seconds_total Time until an answer began.\n# TYPE lango_request_seconds_total counter\n",
    );
    for ((route, method, status), sum) in &requests {
        let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
        let _ = writeln!(text, "lango_request_seconds_total{labels} {}", sum.time.as_secs_f64());
    }
    let tally = server.runs.tally();
    text.push_str(
        "# HELP lango_runs_finished_total Runs that are over.\n# TYPE lango_runs_finished_total counter\n",
    );
    for (status, count) in [("done", tally.done), ("cancelled", tally.cancelled), ("failed", tally.failed)] {
        let _ = writeln!(text, "lango_runs_finished_total{{status=\"{status}\"}} {count}");
    }
    let readers = server.metrics.readers.load(Ordering::Relaxed);
    let spans = server.telemetry.counts();
    let single = [
        ("lango_runs_running", "gauge", "Runs that are not over.", server.runs.running().to_string()),
        ("lango_events_total", "counter", "Events of runs, partial ones too.", tally.events.to_string()),
        ("lango_sse_readers", "gauge", "Streams that are being read.", readers.to_string()),
        ("lango_spans_sent_total", "counter", "Spans that the collector took.", spans.sent.to_string()),
        ("lango_spans_dropped_total", "counter", "Spans that were lost.", spans.dropped.to_string()),
    ];
    for (name, kind, help, value) in single {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_request_and_its_run_and_no_query() {
        let response = HttpResponse::builder().status(200).header(RUN_ID, "r1").body(()).unwrap();
        let line = line(&response, &Method::POST, "/run", Duration::from_millis(3), 7);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&read["request"], &read["path"], &read["status"], &read["run"]),
            (&json!(7), &json!("/run"), &json!(200), &json!("r1"))
        );
    }
}
