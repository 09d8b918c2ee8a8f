//! Progress of running calls for live clients. Best effort: never stored, and it never delays a call.

use crate::event::Event;
use lock::LockExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    convert::Infallible,
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Notify;

/// The key in an event's `customMetadata`.
pub const PROGRESS: &str = "lango:progress";

/// The maximum size of a progress text in bytes.
const MAX_BYTES: usize = 400;
/// The minimum interval between two progress events.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress text of a call so far. Each value replaces the one before, so clients may miss some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProgress {
    pub call_id: String,
    pub tool: String,
    /// Only the end of a long text.
    pub text: String,
}

impl CallProgress {
    /// Reads the progress from an event.
    pub fn of(event: &Event) -> Option<Self> {
        let progress = event.custom_metadata.as_ref().filter(|_| event.is_partial())?.get(PROGRESS)?;
        Self::deserialize(progress).ok()
    }

    pub(crate) fn metadata(&self) -> Option<Map<String, Value>> {
        Some(Map::from_iter([(PROGRESS.to_owned(), serde_json::to_value(self).ok()?)]))
    }
}

/// The progress of all calls of one step.
#[derive(Debug, Default)]
pub(crate) struct ProgressBoard {
    lines: Mutex<Vec<CallLine>>,
    changed: Notify,
}

#[derive(Debug)]
struct CallLine {
    progress: CallProgress,
    published: bool,
}

impl ProgressBoard {
    fn lines(&self) -> MutexGuard<'_, Vec<CallLine>> {
        self.lines.locked()
    }

    pub(crate) fn push(&self, call_id: &str, tool: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut lines = self.lines();
        if let Some(line) = lines.iter_mut().find(|line| line.progress.call_id == call_id) {
            let kept = &mut line.progress.text;
            kept.push_str(tail(text));
            kept.drain(..kept.len() - tail(kept).len());
            line.published = false;
        } else {
            let (call_id, tool, text) = (call_id.to_owned(), tool.to_owned(), tail(text).to_owned());
            lines.push(CallLine { progress: CallProgress { call_id, tool, text }, published: false });
        }
        drop(lines);
        self.changed.notify_one();
    }

    /// Publishes changes until it is dropped.
    pub(crate) async fn publish(&self, show: impl Fn(&CallProgress)) -> Infallible {
        loop {
            self.changed.notified().await;
            for progress in self.take_changed() {
                show(&progress);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn take_changed(&self) -> Vec<CallProgress> {
        let mut lines = self.lines();
        let is_changed = |line: &mut CallLine| !std::mem::replace(&mut line.published, true);
        lines.iter_mut().filter_map(|line| is_changed(line).then(|| line.progress.clone())).collect()
    }
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(MAX_BYTES);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_truncated_to_its_end_at_a_char_boundary() {
        let board = ProgressBoard::default();
        board.push("c1", "exec", "begin ");
        board.push("c1", "exec", &"ä".repeat(300));
        board.push("c1", "exec", " end");
        let changed = board.take_changed();
        assert_eq!(changed.len(), 1);
        assert!(
            changed[0].text.len() <= MAX_BYTES
                && changed[0].text.starts_with('ä')
                && changed[0].text.ends_with("ä end")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn frequent_progress_is_throttled_and_the_last_text_is_published() {
        let board = ProgressBoard::default();
        let (published, started) = (Mutex::new(Vec::new()), tokio::time::Instant::now());
        let reporting = async {
            for at in 0..1_000 {
                board.push("c1", "exec", &format!("{at}\n"));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(INTERVAL).await;
        };
        tokio::select! {
            () = reporting => {}
            never = board.publish(|progress| published.lock().unwrap().push(progress.text.clone())) => match never {},
        }
        let published = published.into_inner().unwrap();
        assert!(published.len() <= 12, "{} in {:?}", published.len(), started.elapsed());
        assert_eq!(published[0], "0\n");
        assert!(published.last().unwrap().ends_with("998\n999\n"));
    }
}
