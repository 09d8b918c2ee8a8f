//! Traces: what runs do, kept for a while for those who look at a session, and sent to a collector where one is configured.
//!
//! | read | for |
//! |---|---|
//! | `kept` | the newest spans, in memory |
//! | `export` | the way to a collector |
//! | `otlp` | spans in the collector's words |
//! | `parent` | a trace that somebody else has begun |
//!
//! **Invariant.** A turn never waits for any of this: what does not fit is dropped and counted.

mod export;
mod kept;
mod otlp;
mod parent;

#[cfg(test)]
mod tests;

pub use export::{Collector, Counts};

use adk::trace::{Recorder, Span, Trace};
use export::Exporter;
use kept::Kept;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Records spans. Its clones are the same.
#[derive(Clone, Default)]
pub struct Telemetry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Mutex<Kept>,
    exporter: Option<Exporter>,
    content: bool,
}

impl Telemetry {
    /// For those who look at a session, and for a collector if there is one. Whatever is sent is sent by a task of its own, so
    /// this needs a runtime.
    pub fn new(collector: Option<Collector>) -> Result<Self, String> {
        let content = collector.as_ref().is_some_and(|collector| collector.content);
        let exporter = collector.map(Exporter::start).transpose()?;
        Ok(Self(Arc::new(Inner { kept: Mutex::default(), exporter, content })))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trace of our own.
    pub fn trace(&self) -> Trace {
        Trace::new(self.recorder())
    }

    /// The trace that a request belongs to, by its `traceparent`; one of our own if it says nothing that can be read.
    pub fn continued(&self, traceparent: Option<&str>) -> Trace {
        match traceparent.and_then(parent::read) {
            Some(parent) => {
                Trace::within(self.recorder(), parent.trace_id, Some(parent.span_id), parent.sampled)
            }
            None => self.trace(),
        }
    }

    fn recorder(&self) -> Arc<dyn Recorder> {
        Arc::clone(&self.0) as Arc<dyn Recorder>
    }

    /// Whether anything leaves the process.
    pub fn is_exported(&self) -> bool {
        self.0.exporter.is_some()
    }

    /// All that is still known of sessions and `is_wanted`, in the order in which it ended.
    pub fn matching(&self, is_wanted: impl Fn(&Span) -> bool) -> Vec<Arc<Span>> {
        self.kept().matching(is_wanted)
    }

    /// How many spans were sent and how many were lost on the way.
    pub fn counts(&self) -> Counts {
        self.0.exporter.as_ref().map(Exporter::counts).unwrap_or_default()
    }

    /// Sends what waits, and gives up after a while.
    pub async fn flush(&self, within: Duration) {
        if let Some(exporter) = &self.0.exporter {
            exporter.flush(within).await;
        }
    }
}

impl Recorder for Inner {
    fn record(&self, span: Span) {
        let span = Arc::new(span);
        if span.session.is_some() {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(Arc::clone(&span));
        }
        if let Some(exporter) = self.exporter.as_ref().filter(|_| span.sampled) {
            exporter.take(span);
        }
    }

    fn takes_content(&self) -> bool {
        self.content
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("exported", &self.is_exported()).finish_non_exhaustive()
    }
}
