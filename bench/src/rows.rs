//! Test rows for the store: 0.5–4 KB of text, evenly distributed on a logarithmic scale, 500 tokens each.

use session::{SessionMessage, ToolCall};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const TOKENS: u32 = 500;

/// Any `PERIOD` consecutive rows have the same total size, so that every window of them costs the same to read.
const PERIOD: usize = 64;

#[derive(Debug)]
pub(crate) struct Rows {
    next: AtomicUsize,
    contents: Vec<String>,
}

impl Rows {
    pub(crate) fn new() -> Self {
        let sizes = std::iter::successors(Some(512_usize), |size| Some(size + size * 33 / 1000));
        let text = |size: usize| {
            "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(size).collect()
        };
        Self { next: AtomicUsize::new(0), contents: sizes.take(PERIOD).map(text).collect() }
    }

    /// Returns a row with a new id. Every fourth row has a tool call.
    pub(crate) fn next(&self) -> SessionMessage {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // 37 and 64 are coprime: every size occurs, in an order without a trend.
        let content = self.contents[number * 37 % PERIOD].clone();
        let tool_calls = if number % 4 == 3 { vec![call(number)] } else { Vec::new() };
        SessionMessage {
            id: format!("message-{number:012}"),
            role: "assistant".into(),
            author: "bench".into(),
            content,
            tool_calls,
            timestamp: 1_790_000_000.25,
            tokens: TOKENS,
            counted_by: "bench".into(),
            meta: None,
        }
    }
}

fn call(number: usize) -> ToolCall {
    let input = r#"{"path":"src/main.rs","from":1,"to":80}"#.into();
    ToolCall { id: format!("call-{number}"), name: "read_file".into(), input, ..ToolCall::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_of_a_period_has_the_same_size() {
        let rows = Rows::new();
        let sizes: Vec<usize> = (0..3 * PERIOD).map(|_| rows.next().content.len()).collect();
        assert!(sizes.iter().all(|size| (512..4096).contains(size)));
        let windows: Vec<usize> = sizes.windows(PERIOD).map(|window| window.iter().sum()).collect();
        assert!(windows.iter().all(|sum| *sum == windows[0]));
    }
}
