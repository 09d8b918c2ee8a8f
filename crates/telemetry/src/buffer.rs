//! A buffer of the newest spans, bounded in bytes.

use adk::trace::Span;
use serde_json::Value;
use std::{collections::VecDeque, sync::Arc};

const CAPACITY: usize = 2 * 1024 * 1024;
/// The estimated size of a span without its attributes.
const SPAN_OVERHEAD: usize = 512;

#[derive(Default)]
pub(super) struct SpanBuffer {
    spans: VecDeque<(Arc<Span>, usize)>,
    bytes: usize,
}

impl SpanBuffer {
    pub(super) fn push(&mut self, span: Arc<Span>) {
        let size = size(&span);
        self.bytes += size;
        self.spans.push_back((span, size));
        while self.bytes > CAPACITY {
            let Some((_, size)) = self.spans.pop_front() else { break };
            self.bytes -= size;
        }
    }

    pub(super) fn matching(&self, predicate: impl Fn(&Span) -> bool) -> Vec<Arc<Span>> {
        self.spans.iter().map(|(span, _)| span).filter(|span| predicate(span)).map(Arc::clone).collect()
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
        assert!(buffer.bytes <= CAPACITY);
        // A span larger than the capacity evicts all others and itself.
        let mut large = span(100);
        large.attributes.insert("text".to_owned(), "x".repeat(CAPACITY).into());
        buffer.push(Arc::new(large));
        assert!(buffer.matching(|_| true).is_empty() && buffer.bytes == 0);
    }
}
