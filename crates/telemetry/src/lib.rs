//! Spans of runs: the newest ones stay in memory for ADK's trace panel, and all are exported by OTLP if a collector is
//! configured.
//!
//! | module | contents |
//! |---|---|
//! | `buffer` | a bounded buffer of the newest spans |
//! | `export` | the bounded queue to a collector, and the task that sends batches |
//! | `otlp` | spans as OTLP in JSON |
//! | `histogram` | counts of durations in fixed buckets |
//! | `measurements` | histograms of runs: waits, model calls, tool calls, commits |
//! | `traceparent` | the W3C header by which a request continues a trace |
//!
//! **Invariant.** A turn never waits for telemetry: spans that do not fit the queue are dropped and counted.

mod buffer;
mod export;
mod histogram;
mod measurements;
mod otlp;
mod traceparent;

#[cfg(test)]
mod tests;

pub use export::{Collector, ExportCounts};
pub use histogram::HistogramSeries;
pub use measurements::HistogramFamily;

use adk::{
    session::SessionKey,
    trace::{MeasuredOperation, Span, SpanSink, Trace},
};
use buffer::SpanBuffer;
use export::Exporter;
use lock::LockExt;
use measurements::Measurements;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// Records spans. Clones share the buffer and the exporter.
#[derive(Clone, Default)]
pub struct Telemetry(Arc<SpanRecorder>);

#[derive(Default)]
struct SpanRecorder {
    buffer: Mutex<SpanBuffer>,
    exporter: Option<Exporter>,
    content: bool,
    measurements: Measurements,
}

impl Telemetry {
    /// Starts the exporter if there is a collector. The exporter is a task, so this must be called within a runtime.
    pub fn new(collector: Option<Collector>) -> Result<Self, String> {
        let content = collector.as_ref().is_some_and(|collector| collector.content);
        let exporter = collector.map(Exporter::start).transpose()?;
        Ok(Self(Arc::new(SpanRecorder { exporter, content, ..SpanRecorder::default() })))
    }

    fn buffer(&self) -> MutexGuard<'_, SpanBuffer> {
        self.0.buffer.locked()
    }

    /// A new trace.
    pub fn trace(&self) -> Trace {
        Trace::new(self.recorder())
    }

    /// The trace that the `traceparent` of a request names; a new one if the header is missing or malformed.
    pub fn continued(&self, traceparent: Option<&str>) -> Trace {
        match traceparent.and_then(traceparent::parse) {
            Some(parent) => {
                Trace::continued(self.recorder(), parent.trace_id, Some(parent.span_id), parent.sampled)
            }
            None => self.trace(),
        }
    }

    fn recorder(&self) -> Arc<dyn SpanSink> {
        Arc::clone(&self.0) as Arc<dyn SpanSink>
    }

    /// Whether spans are exported.
    pub fn is_exported(&self) -> bool {
        self.0.exporter.is_some()
    }

    /// The buffered spans that `predicate` selects, in the order in which they ended.
    pub fn matching(&self, predicate: impl Fn(&Span) -> bool) -> Vec<Arc<Span>> {
        self.buffer().matching(predicate)
    }

    /// Removes the buffered spans of a session that was deleted.
    pub fn forget(&self, session: &SessionKey) {
        self.buffer().forget(session);
    }

    /// How many spans were exported, and how many were dropped.
    pub fn counts(&self) -> ExportCounts {
        self.0.exporter.as_ref().map(Exporter::counts).unwrap_or_default()
    }

    /// The histograms of all operations so far.
    pub fn histograms(&self) -> Vec<HistogramFamily> {
        self.0.measurements.families()
    }

    /// Exports the queued spans, or gives up after `timeout`.
    pub async fn flush(&self, timeout: Duration) {
        if let Some(exporter) = &self.0.exporter {
            exporter.flush(timeout).await;
        }
    }
}

impl SpanSink for SpanRecorder {
    fn record(&self, span: Span) {
        self.measurements.record(&span);
        let span = Arc::new(span);
        if span.session.is_some() {
            self.buffer.locked().push(Arc::clone(&span));
        }
        if let Some(exporter) = self.exporter.as_ref().filter(|_| span.sampled) {
            exporter.enqueue(span);
        }
    }

    fn accepts_content(&self) -> bool {
        self.content
    }

    fn measure(&self, operation: MeasuredOperation, time: Duration) {
        self.measurements.measure(operation, time);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("exported", &self.is_exported()).finish_non_exhaustive()
    }
}
