//! The newest spans, in memory: so many bytes of them, whatever they hold.

use adk::trace::Span;
use serde_json::Value;
use std::{collections::VecDeque, sync::Arc};

const BYTES: usize = 2 * 1024 * 1024;
/// About what a span takes beside its texts.
const EACH: usize = 512;

#[derive(Default)]
pub(super) struct Kept {
    spans: VecDeque<(Arc<Span>, usize)>,
    bytes: usize,
}

impl Kept {
    pub(super) fn add(&mut self, span: Arc<Span>) {
        let size = size(&span);
        self.bytes += size;
        self.spans.push_back((span, size));
        while self.bytes > BYTES {
            let Some((_, size)) = self.spans.pop_front() else { break };
            self.bytes -= size;
        }
    }

    pub(super) fn matching(&self, is_wanted: impl Fn(&Span) -> bool) -> Vec<Arc<Span>> {
        self.spans.iter().map(|(span, _)| span).filter(|span| is_wanted(span)).map(Arc::clone).collect()
    }
}

fn size(span: &Span) -> usize {
    let texts = span.attributes.iter().map(|(name, value)| name.len() + value.as_str().map_or(16, str::len));
    EACH + texts.sum::<usize>()
        + span.attributes.values().filter(|value| matches!(value, Value::Array(_))).count() * 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::span;

    #[test]
    fn the_oldest_spans_leave_when_there_is_no_room() {
        let mut kept = Kept::default();
        for number in 0..100 {
            let mut span = span(number);
            span.attributes.insert("text".to_owned(), "x".repeat(100_000).into());
            kept.add(Arc::new(span));
        }
        let left: Vec<u64> = kept.matching(|_| true).iter().map(|span| span.span_id).collect();
        assert_eq!((left.len(), left.last()), (20, Some(&99)));
        assert!(kept.bytes <= BYTES);
        // One that is larger than all the room is not kept, and takes the others along.
        let mut large = span(100);
        large.attributes.insert("text".to_owned(), "x".repeat(BYTES).into());
        kept.add(Arc::new(large));
        assert!(kept.matching(|_| true).is_empty() && kept.bytes == 0);
    }
}
