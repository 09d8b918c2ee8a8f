//! Where a run belongs in a trace. A span begins where something begins, and is recorded when it ends, however it ends.
//!
//! The kernel says what happened in OpenTelemetry's words for generative AI; what becomes of it is its recorder's business.

use crate::session::SessionKey;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Takes spans that are over. It must not block.
pub trait SpanSink: Send + Sync {
    fn record(&self, span: Span);

    /// Whether what was said may be in a span: messages, arguments, results.
    fn takes_content(&self) -> bool;
}

/// Something that happened, from its begin to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: u128,
    pub span_id: u64,
    pub parent: Option<u64>,
    /// Whether whoever began the trace wants it.
    pub sampled: bool,
    pub name: String,
    pub kind: SpanKind,
    /// In nanoseconds since the epoch.
    pub start: u64,
    pub end: u64,
    pub attributes: Map<String, Value>,
    /// What kind of failure it ended with.
    pub error: Option<String>,
    /// Whose it is, beside what it says.
    pub session: Option<Arc<SessionKey>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    #[default]
    Internal,
    /// Asked for by somebody else.
    Server,
    /// Asks somebody else.
    Client,
}

/// A place in a trace, below which spans begin. The default records nothing and costs nothing.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<SpanContext>>);

#[derive(Clone)]
struct SpanContext {
    recorder: Arc<dyn SpanSink>,
    trace_id: u128,
    parent: Option<u64>,
    sampled: bool,
    session: Option<Arc<SessionKey>>,
}

impl Trace {
    /// A trace that begins with its first span.
    pub fn new(recorder: Arc<dyn SpanSink>) -> Self {
        Self::within(recorder, 0, None, true)
    }

    /// A trace that somebody else has begun.
    pub fn within(recorder: Arc<dyn SpanSink>, trace_id: u128, parent: Option<u64>, sampled: bool) -> Self {
        Self(Some(Arc::new(SpanContext { recorder, trace_id, parent, sampled, session: None })))
    }

    /// The same for what happens in a session.
    #[must_use]
    pub fn of_session(&self, key: &SessionKey) -> Self {
        let session = Some(Arc::new(key.clone()));
        Self(self.0.as_deref().map(|place| Arc::new(SpanContext { session, ..place.clone() })))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span; the name is not even made if nobody records.
    pub fn begin(&self, kind: SpanKind, name: impl FnOnce() -> String) -> ActiveSpan {
        ActiveSpan(self.0.as_ref().map(|place| {
            let SpanContext { recorder, trace_id, parent, sampled, session } = SpanContext::clone(place);
            let trace_id = if trace_id == 0 { fresh() } else { trace_id };
            let span = Span {
                trace_id,
                span_id: u64::try_from(fresh() >> 64).unwrap_or(1),
                parent,
                sampled,
                name: name(),
                kind,
                start: nanoseconds(),
                end: 0,
                attributes: Map::new(),
                error: None,
                session,
            };
            Box::new((recorder, span))
        }))
    }
}

/// Never zero: some of its bits say how it was made.
fn fresh() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A span that has begun. It is recorded when it is dropped, so that what is cancelled is told as well.
#[must_use]
pub struct ActiveSpan(Option<Box<(Arc<dyn SpanSink>, Span)>>);

impl ActiveSpan {
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some((_, span)) = self.0.as_deref_mut() {
            span.attributes.insert(name.to_owned(), value.into());
        }
    }

    /// The same if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// What is only made if it is wanted: what people, models and tools said.
    pub fn set_content(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if let Some((recorder, _)) = self.0.as_deref()
            && recorder.takes_content()
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

    /// It did not happen.
    pub fn forget(mut self) {
        self.0 = None;
    }

    /// The place below it.
    pub fn trace(&self) -> Trace {
        Trace(self.0.as_deref().map(|(recorder, span)| {
            let (recorder, session) = (Arc::clone(recorder), span.session.clone());
            let Span { trace_id, span_id, sampled, .. } = *span;
            Arc::new(SpanContext { recorder, trace_id, parent: Some(span_id), sampled, session })
        }))
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        if let Some((recorder, mut span)) = self.0.take().map(|active| *active) {
            span.end = nanoseconds();
            recorder.record(span);
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.0.as_ref().map(|place| place.trace_id)).finish()
    }
}

impl fmt::Debug for ActiveSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveSpan").field(&self.0.as_deref().map(|(_, span)| &span.name)).finish()
    }
}
