//! Trace spans, without an exporter: a span starts with an operation and is recorded when it ends, also on error or
//! cancellation. Attributes follow OpenTelemetry's semantic conventions for generative AI.

use crate::session::SessionKey;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Receives finished spans. It must not block.
pub trait SpanSink: Send + Sync {
    fn record(&self, span: Span);

    /// Whether spans may contain messages, arguments and results.
    fn accepts_content(&self) -> bool;

    /// Receives the duration of an operation that has no span.
    fn measure(&self, operation: MeasuredOperation, time: Duration);
}

/// An operation that is too frequent or too small for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOperation {
    /// From the arrival of a message until its run starts.
    QueueWait,
    /// A commit to the session store, retries included.
    Append,
}

/// A finished or running span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: u128,
    pub span_id: u64,
    pub parent: Option<u64>,
    /// The sampling decision of the trace's root.
    pub sampled: bool,
    pub name: String,
    pub kind: SpanKind,
    /// In nanoseconds since the epoch.
    pub start: u64,
    pub end: u64,
    pub attributes: Map<String, Value>,
    /// The error type, if the operation failed.
    pub error: Option<String>,
    /// Of a model call: the time until the first chunk of the answer. Not an attribute.
    pub first_token: Option<Duration>,
    /// The session that the span belongs to. Not an attribute.
    pub session: Option<Arc<SessionKey>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    #[default]
    Internal,
    /// Handles a request.
    Server,
    /// Sends a request.
    Client,
}

/// A parent for new spans. The default records nothing and costs nothing.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<SpanContext>>);

#[derive(Clone)]
struct SpanContext {
    sink: Arc<dyn SpanSink>,
    trace_id: u128,
    parent: Option<u64>,
    sampled: bool,
    session: Option<Arc<SessionKey>>,
}

impl Trace {
    /// A trace whose first span is the root.
    pub fn new(sink: Arc<dyn SpanSink>) -> Self {
        Self::continued(sink, 0, None, true)
    }

    /// Continues a trace of another process.
    pub fn continued(sink: Arc<dyn SpanSink>, trace_id: u128, parent: Option<u64>, sampled: bool) -> Self {
        Self(Some(Arc::new(SpanContext { sink, trace_id, parent, sampled, session: None })))
    }

    /// The same parent for spans of a session.
    #[must_use]
    pub fn of_session(&self, key: &SessionKey) -> Self {
        let session = Some(Arc::new(key.clone()));
        Self(self.0.as_deref().map(|context| Arc::new(SpanContext { session, ..context.clone() })))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Reports the duration of an operation without a span.
    pub fn measure(&self, operation: MeasuredOperation, time: Duration) {
        if let Some(context) = &self.0 {
            context.sink.measure(operation, time);
        }
    }

    /// Starts a span. `name` is only called if the trace is on.
    pub fn begin(&self, kind: SpanKind, name: impl FnOnce() -> String) -> ActiveSpan {
        ActiveSpan(self.0.as_ref().map(|context| {
            let SpanContext { sink, trace_id, parent, sampled, session } = SpanContext::clone(context);
            let trace_id = if trace_id == 0 { random_id() } else { trace_id };
            let span = Span {
                trace_id,
                span_id: u64::try_from(random_id() >> 64).unwrap_or(1),
                parent,
                sampled,
                name: name(),
                kind,
                start: nanoseconds(),
                end: 0,
                attributes: Map::new(),
                error: None,
                first_token: None,
                session,
            };
            Box::new((sink, span))
        }))
    }
}

/// A random id. Never zero: a v4 UUID has fixed version bits.
fn random_id() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A running span. It is recorded on drop, so that cancelled operations are recorded, too.
#[must_use]
pub struct ActiveSpan(Option<Box<(Arc<dyn SpanSink>, Span)>>);

impl ActiveSpan {
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some((_, span)) = self.0.as_deref_mut() {
            span.attributes.insert(name.to_owned(), value.into());
        }
    }

    /// Sets the attribute if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets an attribute with message content, only if the sink accepts content.
    pub fn set_content(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if let Some((sink, _)) = self.0.as_deref()
            && sink.accepts_content()
        {
            self.set(name, value().to_string());
        }
    }

    pub fn fail(&mut self, kind: &str) {
        self.set("error.type", kind);
        if let Some((_, span)) = self.0.as_deref_mut() {
            span.error = Some(kind.to_owned());
        }
    }

    /// Sets the time until the first chunk of the answer.
    pub fn set_first_token(&mut self, time: Option<Duration>) {
        if let Some((_, span)) = self.0.as_deref_mut() {
            span.first_token = time;
        }
    }

    /// Drops the span without recording it.
    pub fn forget(mut self) {
        self.0 = None;
    }

    /// The trace with this span as the parent.
    pub fn trace(&self) -> Trace {
        Trace(self.0.as_deref().map(|(sink, span)| {
            let (sink, session) = (Arc::clone(sink), span.session.clone());
            let Span { trace_id, span_id, sampled, .. } = *span;
            Arc::new(SpanContext { sink, trace_id, parent: Some(span_id), sampled, session })
        }))
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        if let Some((sink, mut span)) = self.0.take().map(|active| *active) {
            span.end = nanoseconds();
            sink.record(span);
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.0.as_ref().map(|context| context.trace_id)).finish()
    }
}

impl fmt::Debug for ActiveSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveSpan").field(&self.0.as_deref().map(|(_, span)| &span.name)).finish()
    }
}
