//! A buffer of the newest spans, bounded in bytes.

use adk::{session::SessionKey, trace::Span};
use bounded_cache::{BoundedCache, Limits};
use serde_json::Value;
use std::sync::Arc;

const CAPACITY: usize = 2 * 1024 * 1024;
/// The estimated size of a span without its attributes.
const SPAN_OVERHEAD: usize = 512;

pub(super) struct SpanBuffer {
    /// By number, in the order of their ends.
    spans: BoundedCache<u64, Arc<Span>>,
    ended: u64,
}

impl Default for SpanBuffer {
    fn default() -> Self {
        Self { spans: BoundedCache::new(Limits::weight(CAPACITY)), ended: 0 }
    }
}

impl SpanBuffer {
    pub(super) fn push(&mut self, span: Arc<Span>) {
        let size = size(&span);
        self.ended += 1;
        self.spans.insert(self.ended, span, size);
    }

    /// Removes the spans of a session.
    pub(super) fn forget(&mut self, session: &SessionKey) {
        self.spans.retain(|span| span.session.as_deref() != Some(session));
    }

    pub(super) fn matching(&self, predicate: impl Fn(&Span) -> bool) -> Vec<Arc<Span>> {
        self.spans.values().filter(|span| predicate(span)).map(Arc::clone).collect()
    }
}

fn size(span: &Span) -> usize {
    let texts = span.attributes.iter().map(|(name, value)| name.len() + value.as_str().map_or(16, str::len));
    SPAN_OVERHEAD
        + texts.sum::<usize>()
        + span.attributes.values().filter(|value| matches!(value, Value::Array(_))).count() * 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::span;

    #[test]
    fn the_oldest_spans_are_evicted_beyond_the_capacity() {
        let mut buffer = SpanBuffer::default();
        for number in 0..100 {
            let mut span = span(number);
            span.attributes.insert("text".to_owned(), "x".repeat(100_000).into());
            buffer.push(Arc::new(span));
        }
        let buffered: Vec<u64> = buffer.matching(|_| true).iter().map(|span| span.span_id).collect();
        assert_eq!((buffered.len(), buffered.last()), (20, Some(&99)));
        assert!(buffer.spans.weight() <= CAPACITY);
        // A span larger than the capacity evicts all others and itself.
        let mut large = span(100);
        large.attributes.insert("text".to_owned(), "x".repeat(CAPACITY).into());
        buffer.push(Arc::new(large));
        assert!(buffer.matching(|_| true).is_empty() && buffer.spans.weight() == 0);
    }
}
