//! Spans of runs: the newest ones stay in memory for ADK's trace panel, and all are exported by OTLP if a collector is
//! configured.
//!
//! | read | for |
//! |---|---|
//! | `buffer` | a bounded buffer of the newest spans |
//! | `export` | the bounded queue to a collector, and the task that sends batches |
//! | `otlp` | spans as OTLP in JSON |
//! | `traceparent` | the W3C header by which a request continues a trace |
//!
//! **Invariant.** A turn never waits for telemetry: spans that do not fit the queue are dropped and counted.

mod buffer;
mod export;
mod otlp;
mod traceparent;

#[cfg(test)]
mod tests;

pub use export::{Collector, ExportCounts};

use adk::trace::{Span, SpanSink, Trace};
use buffer::SpanBuffer;
use export::Exporter;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
}

impl Telemetry {
    /// Starts the exporter if there is a collector. The exporter is a task, so this must be called within a runtime.
    pub fn new(collector: Option<Collector>) -> Result<Self, String> {
        let content = collector.as_ref().is_some_and(|collector| collector.content);
        let exporter = collector.map(Exporter::start).transpose()?;
        Ok(Self(Arc::new(SpanRecorder { buffer: Mutex::default(), exporter, content })))
    }

    fn buffer(&self) -> MutexGuard<'_, SpanBuffer> {
        self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// How many spans were exported, and how many were dropped.
    pub fn counts(&self) -> ExportCounts {
        self.0.exporter.as_ref().map(Exporter::counts).unwrap_or_default()
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
        let span = Arc::new(span);
        if span.session.is_some() {
            self.buffer.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&span));
        }
        if let Some(exporter) = self.exporter.as_ref().filter(|_| span.sampled) {
            exporter.enqueue(span);
        }
    }

    fn accepts_content(&self) -> bool {
        self.content
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("exported", &self.is_exported()).finish_non_exhaustive()
    }
}
