//! The events of a run while it is in memory. Each reader reads them at its own pace, by cursor.
//!
//! A server sends the id of the cursor as the SSE cursor (`Last-Event-ID`). The id is `stored-generation-partial`: the
//! number of stored events up to the cursor, the id of the counting process, and the number of partial events since.
//! The first number is valid after a restart, the others within one process only.

use adk::{error::RunError, event::Event, progress::CallProgress};
use lock::LockExt;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Above this many entries, partial events are dropped once their final event is there. A reader that is further
/// behind gets the final event alone.
const ENTRIES: usize = 4096;

/// The position of a reader in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Number of stored events that were read.
    pub stored: u64,
    /// Number of partial events since the last stored one.
    pub partial: u64,
}

impl Cursor {
    /// Parses [`Cursor::to_id`]. Partial counts of another process are ignored.
    pub fn from_id(id: &str) -> Option<Self> {
        let mut numbers = id.splitn(3, '-');
        let stored = numbers.next()?.parse().ok()?;
        let ours = numbers.next() == Some(generation());
        let partial = numbers.next().and_then(|number| number.parse().ok()).filter(|_| ours);
        Some(Self { stored, partial: partial.unwrap_or(0) })
    }

    pub fn to_id(self) -> String {
        match self.partial {
            0 => self.stored.to_string(),
            partial => format!("{}-{}-{partial}", self.stored, generation()),
        }
    }
}

fn generation() -> &'static str {
    static GENERATION: OnceLock<String> = OnceLock::new();
    GENERATION.get_or_init(|| uuid::Uuid::new_v4().simple().to_string()[..8].to_owned())
}

/// An event of a run, with its cursor and its encoding.
#[derive(Clone, Debug)]
pub struct RunEntry {
    pub cursor: Cursor,
    pub event: Arc<Event>,
    /// The event as ADK's JSON, encoded once for all readers.
    pub json: Arc<str>,
}

impl RunEntry {
    pub(super) fn new(cursor: Cursor, event: Event) -> Self {
        let json = serde_json::to_string(&event).unwrap_or_default().into();
        Self { cursor, event: Arc::new(event), json }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    Done,
    Cancelled,
    /// The session does not exist; nothing was stored.
    NotFound,
    /// The message answers a call or question that is not open; nothing was stored.
    UnknownCall {
        message: String,
    },
    /// The answer does not match its question; nothing was stored.
    InvalidAnswer {
        message: String,
    },
    /// `in_log` says whether the last event of the log reports the failure.
    Failed {
        message: String,
        in_log: bool,
    },
}

impl RunOutcome {
    pub(super) fn from_result(result: &Result<(), RunError>, in_log: bool) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(RunError::Cancelled) => Self::Cancelled,
            Err(RunError::SessionNotFound(_)) => Self::NotFound,
            Err(error @ RunError::UnknownCall { .. }) => Self::UnknownCall { message: error.to_string() },
            Err(error @ RunError::InvalidAnswer { .. }) => Self::InvalidAnswer { message: error.to_string() },
            Err(error) => Self::Failed { message: error.to_string(), in_log },
        }
    }
}

/// Why a run has no further event in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveOutcome {
    Over(RunOutcome),
    /// Another process has the run: readers follow the log.
    Moved,
}

pub(super) enum LiveItem {
    Entry(RunEntry),
    End(LiveOutcome),
}

pub(super) struct LiveRun {
    pub(super) cancel: CancellationToken,
    /// Events before this cursor are in the log only, because another process stored them.
    from: Cursor,
    log: Mutex<EntryBuffer>,
    changed: Notify,
}

#[derive(Default)]
struct EntryBuffer {
    entries: Vec<RunEntry>,
    last: Cursor,
    end: Option<LiveOutcome>,
}

impl EntryBuffer {
    /// Keeps only the latest progress event of a call.
    fn drop_earlier_progress(&mut self, call_id: &str) {
        let progress = |entry: &RunEntry| CallProgress::of(&entry.event);
        let newest = self.entries.iter().rev().map(progress).take_while(Option::is_some).flatten();
        let before = newest.map(|progress| progress.call_id).position(|id| id == call_id);
        if let Some(back) = before {
            self.entries.remove(self.entries.len() - 1 - back);
        }
    }
}

impl LiveRun {
    pub(super) fn new(cancel: CancellationToken, from: Cursor) -> Self {
        let log = EntryBuffer { last: from, ..EntryBuffer::default() };
        Self { cancel, from, log: Mutex::new(log), changed: Notify::new() }
    }

    fn log(&self) -> MutexGuard<'_, EntryBuffer> {
        self.log.locked()
    }

    /// Whether all events after `cursor` are in memory.
    pub(super) fn covers(&self, cursor: Cursor) -> bool {
        cursor >= self.from && self.end() != Some(LiveOutcome::Moved)
    }

    pub(super) fn push(&self, event: &Event) {
        let mut log = self.log();
        log.last = if event.is_partial() {
            Cursor { partial: log.last.partial + 1, ..log.last }
        } else {
            Cursor { stored: log.last.stored + 1, partial: 0 }
        };
        if log.entries.len() >= ENTRIES && !event.is_partial() {
            log.entries.retain(|entry| entry.cursor.partial == 0);
        }
        if let Some(progress) = CallProgress::of(event) {
            log.drop_earlier_progress(&progress.call_id);
        }
        let entry = RunEntry::new(log.last, event.clone());
        log.entries.push(entry);
        drop(log);
        self.changed.notify_waiters();
    }

    pub(super) fn finish(&self, result: &Result<(), RunError>, has_moved: bool) {
        let mut log = self.log();
        let in_log = log.entries.last().is_some_and(|entry| entry.event.error_code.is_some());
        log.end = Some(if has_moved {
            LiveOutcome::Moved
        } else {
            LiveOutcome::Over(RunOutcome::from_result(result, in_log))
        });
        drop(log);
        self.changed.notify_waiters();
    }

    /// Directs readers to the log, which has events that this process did not buffer.
    pub(super) fn continue_in_log(&self) {
        self.log().end = Some(LiveOutcome::Moved);
    }

    pub(super) fn end(&self) -> Option<LiveOutcome> {
        self.log().end.clone()
    }

    /// Waits for the next entry after `cursor`, or for the end.
    pub(super) async fn next_after(&self, cursor: Cursor) -> LiveItem {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Subscribes before the check, so that no notification is lost.
            changed.as_mut().enable();
            {
                let log = self.log();
                let next = log.entries.partition_point(|entry| entry.cursor <= cursor);
                if let Some(entry) = log.entries.get(next) {
                    return LiveItem::Entry(entry.clone());
                }
                if let Some(end) = &log.end {
                    return LiveItem::End(end.clone());
                }
            }
            changed.await;
        }
    }

    /// Number of buffered events.
    pub(super) fn len(&self) -> u64 {
        self.log().entries.len() as u64
    }

    /// Approximate size of the buffered events in bytes.
    pub(super) fn size(&self) -> usize {
        self.log().entries.iter().map(|entry| entry.json.len() * 2 + 512).sum()
    }
}

impl fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRun").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn progress(call: &str, text: &str) -> Event {
        let progress = json!({"call_id": call, "tool": "exec", "text": text});
        let metadata = Map::from_iter([(adk::progress::PROGRESS.to_owned(), progress)]);
        Event { partial: Some(true), custom_metadata: Some(metadata), ..Event::new("i", "a") }
    }

    #[test]
    fn only_the_latest_progress_event_of_a_call_is_buffered() {
        let live = LiveRun::new(CancellationToken::new(), Cursor::default());
        live.push(&Event::new("i", "a"));
        for at in 0..100 {
            live.push(&progress("one", &at.to_string()));
            live.push(&progress("two", &at.to_string()));
        }
        let kept: Vec<String> = live
            .log()
            .entries
            .iter()
            .filter_map(|entry| CallProgress::of(&entry.event))
            .map(|progress| progress.text)
            .collect();
        assert_eq!(kept, ["99", "99"]);
        assert_eq!(live.len(), 3);
    }
}
