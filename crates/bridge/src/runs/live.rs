//! The events of a run while it is in memory: readers take what they have not seen, at their own pace.
//!
//! A place in a run is `stored-generation-partial`: how many stored events came before and with it, which process counts, and
//! how many partial ones came since. The first number means the same after a restart, the others only in one process.

use adk::{error::RunError, event::Event, progress::CallProgress};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Beyond this many, partial events whose whole came since are forgotten; a reader that is so far behind gets the whole.
const ENTRIES: usize = 4096;

/// Where a reader is in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// How many stored events it has seen.
    pub stored: u64,
    /// How many partial ones since the last of them.
    pub partial: u64,
}

impl Cursor {
    /// Reads what [`Cursor::to_id`] wrote. Partial events of another process are none of ours.
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

/// An event as it leaves.
#[derive(Clone, Debug)]
pub struct RunEntry {
    pub place: Cursor,
    pub event: Arc<Event>,
    /// The event as ADK's JSON, made once for all readers.
    pub json: Arc<str>,
}

impl RunEntry {
    pub(super) fn new(place: Cursor, event: Event) -> Self {
        let json = serde_json::to_string(&event).unwrap_or_default().into();
        Self { place, event: Arc::new(event), json }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    Done,
    Cancelled,
    /// There is no such session; nothing has happened.
    NotFound,
    /// It answers what nobody asks, or asks any more; nothing has happened.
    Unasked {
        message: String,
    },
    /// With the failure's own words. `told` says that the log has an event of it.
    Failed {
        message: String,
        told: bool,
    },
}

impl RunOutcome {
    pub(super) fn of(result: &Result<(), RunError>, told: bool) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(RunError::Cancelled) => Self::Cancelled,
            Err(RunError::SessionNotFound(_)) => Self::NotFound,
            Err(error @ RunError::UnknownCall { .. }) => Self::Unasked { message: error.to_string() },
            Err(error) => Self::Failed { message: error.to_string(), told },
        }
    }
}

/// Why a run has no further event in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveOutcome {
    Over(RunOutcome),
    /// Another process has the run: the log says how it continues.
    Moved,
}

pub(super) struct LiveRun {
    pub(super) cancel: CancellationToken,
    /// What is before this place is in the log alone: another process did it.
    from: Cursor,
    log: Mutex<EntryBuffer>,
    news: Notify,
}

#[derive(Default)]
struct EntryBuffer {
    entries: Vec<RunEntry>,
    last: Cursor,
    end: Option<LiveOutcome>,
}

impl EntryBuffer {
    /// Of how far a call is, the last word is enough.
    fn forget_progress(&mut self, call_id: &str) {
        let told = |entry: &RunEntry| CallProgress::of(&entry.event);
        let newest = self.entries.iter().rev().map(told).take_while(Option::is_some).flatten();
        let before = newest.map(|progress| progress.call_id).position(|id| id == call_id);
        if let Some(back) = before {
            self.entries.remove(self.entries.len() - 1 - back);
        }
    }
}

impl LiveRun {
    pub(super) fn new(cancel: CancellationToken, from: Cursor) -> Self {
        let log = EntryBuffer { last: from, ..EntryBuffer::default() };
        Self { cancel, from, log: Mutex::new(log), news: Notify::new() }
    }

    fn log(&self) -> MutexGuard<'_, EntryBuffer> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has all that comes after a place.
    pub(super) fn reaches(&self, place: Cursor) -> bool {
        place >= self.from && self.end() != Some(LiveOutcome::Moved)
    }

    pub(super) fn push(&self, event: &Event) {
        let mut log = self.log();
        log.last = if event.is_partial() {
            Cursor { partial: log.last.partial + 1, ..log.last }
        } else {
            Cursor { stored: log.last.stored + 1, partial: 0 }
        };
        if log.entries.len() >= ENTRIES && !event.is_partial() {
            log.entries.retain(|entry| entry.place.partial == 0);
        }
        if let Some(progress) = CallProgress::of(event) {
            log.forget_progress(&progress.call_id);
        }
        let entry = RunEntry::new(log.last, event.clone());
        log.entries.push(entry);
        drop(log);
        self.news.notify_waiters();
    }

    pub(super) fn finish(&self, result: &Result<(), RunError>, has_moved: bool) {
        let mut log = self.log();
        let told = log.entries.last().is_some_and(|entry| entry.event.error_code.is_some());
        log.end = Some(if has_moved {
            LiveOutcome::Moved
        } else {
            LiveOutcome::Over(RunOutcome::of(result, told))
        });
        drop(log);
        self.news.notify_waiters();
    }

    /// The log knows more of a run that was over: readers find the rest there.
    pub(super) fn continue_in_log(&self) {
        self.log().end = Some(LiveOutcome::Moved);
    }

    pub(super) fn end(&self) -> Option<LiveOutcome> {
        self.log().end.clone()
    }

    /// What comes after a place: the next entry, or the end. Waits for it.
    pub(super) async fn after(&self, place: Cursor) -> Result<RunEntry, LiveOutcome> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on nothing that happens is missed.
            news.as_mut().enable();
            {
                let log = self.log();
                let next = log.entries.partition_point(|entry| entry.place <= place);
                if let Some(entry) = log.entries.get(next) {
                    return Ok(entry.clone());
                }
                if let Some(end) = &log.end {
                    return Err(end.clone());
                }
            }
            news.await;
        }
    }

    /// How many events it keeps.
    pub(super) fn len(&self) -> u64 {
        self.log().entries.len() as u64
    }

    /// About how many bytes it keeps.
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
        let told = json!({"call_id": call, "tool": "exec", "text": text});
        let metadata = Map::from_iter([(adk::progress::PROGRESS.to_owned(), told)]);
        Event { partial: Some(true), custom_metadata: Some(metadata), ..Event::new("i", "a") }
    }

    #[test]
    fn a_call_that_says_much_takes_the_room_of_its_last_word() {
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
            .map(|told| told.text)
            .collect();
        assert_eq!(kept, ["99", "99"]);
        assert_eq!(live.len(), 3);
    }
}
