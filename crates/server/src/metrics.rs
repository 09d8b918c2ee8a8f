//! Counters and histograms of the server in Prometheus' text format. Labels hold routes, never paths or user input.

use crate::{error::ApiError, principal::Principal, state::ServerState};
use axum::{
    extract::State,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use lock::LockExt;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};
use telemetry::HistogramFamily;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By route, method and status.
    requests: Mutex<BTreeMap<(String, String, u16), RequestStats>>,
    last_request: AtomicU64,
    sse_readers: AtomicI64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestStats {
    count: u64,
    time: Duration,
}

impl Metrics {
    pub(crate) fn next_request_number(&self) -> u64 {
        self.last_request.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn count_request(&self, method: &Method, route: &str, status: StatusCode, time: Duration) {
        let key = (route.to_owned(), method_label(method).to_owned(), status.as_u16());
        let mut requests = self.requests.locked();
        let stats = requests.entry(key).or_default();
        stats.count += 1;
        stats.time += time;
    }
}

/// The method as a label. A client can invent methods without end, so unknown ones share a label.
pub(crate) fn method_label(method: &Method) -> &str {
    const UNSAFE: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    if method.is_safe() || UNSAFE.contains(method) { method.as_str() } else { "other" }
}

/// Counts as an SSE reader until it is dropped.
#[derive(Debug)]
pub(crate) struct SseReaderGuard(Arc<Metrics>);

impl SseReaderGuard {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        metrics.sse_readers.fetch_add(1, Ordering::Relaxed);
        Self(metrics)
    }
}

impl Drop for SseReaderGuard {
    fn drop(&mut self) {
        self.0.sse_readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Handles `GET /metrics`, for administrators only: the figures are those of all users.
pub(crate) async fn metrics(
    State(server): State<ServerState>,
    caller: Principal,
) -> Result<Response, ApiError> {
    if !caller.admin {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "only an administrator can read metrics"));
    }
    let mut text = String::new();
    let requests = server.metrics.requests.locked().clone();
    text.push_str("# HELP lango_requests_total Answered requests.\n# TYPE lango_requests_total counter\n");
    for ((route, method, status), stats) in &requests {
        let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
        let _ = writeln!(text, "lango_requests_total{labels} {}", stats.count);
    }
    text.push_str(
        "# HELP lango_request_seconds_total Time until the head of the response.\n# TYPE lango_request_seconds_total counter\n",
    );
    for ((route, method, status), stats) in &requests {
        let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
        let _ = writeln!(text, "lango_request_seconds_total{labels} {}", stats.time.as_secs_f64());
    }
    let counts = server.runs.counts();
    text.push_str(
        "# HELP lango_runs_finished_total Finished runs.\n# TYPE lango_runs_finished_total counter\n",
    );
    for (status, count) in [("done", counts.done), ("cancelled", counts.cancelled), ("failed", counts.failed)]
    {
        let _ = writeln!(text, "lango_runs_finished_total{{status=\"{status}\"}} {count}");
    }
    let sse_readers = server.metrics.sse_readers.load(Ordering::Relaxed);
    let spans = server.telemetry.counts();
    let unlabelled = [
        ("lango_runs_running", "gauge", "Active runs.", server.runs.running().to_string()),
        (
            "lango_events_total",
            "counter",
            "Events of finished runs, partial ones included.",
            counts.events.to_string(),
        ),
        ("lango_sse_readers", "gauge", "Open event streams.", sse_readers.to_string()),
        ("lango_spans_sent_total", "counter", "Spans accepted by the collector.", spans.sent.to_string()),
        ("lango_spans_dropped_total", "counter", "Spans lost.", spans.dropped.to_string()),
    ];
    for (name, kind, help, value) in unlabelled {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    for family in server.telemetry.histograms() {
        write_histogram(&mut text, &family);
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn write_histogram(text: &mut String, HistogramFamily { name, help, series }: &HistogramFamily) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    for one in series {
        let labels: Vec<String> = one.labels.iter().map(|(label, value)| label_pair(label, value)).collect();
        let bucket = |bound: String| [&labels[..], &[label_pair("le", &bound)]].concat().join(",");
        for (bound, count) in &one.buckets {
            let _ = writeln!(text, "{name}_bucket{{{}}} {count}", bucket(bound.to_string()));
        }
        let _ = writeln!(text, "{name}_bucket{{{}}} {}", bucket("+Inf".to_owned()), one.count);
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {}", one.sum, one.count);
    }
}

/// `label="value"`, with the escapes of the format.
fn label_pair(label: &str, value: &str) -> String {
    format!("{label}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
