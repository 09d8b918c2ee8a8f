//! The prefix of an agent's requests: the contents with which the next request begins like the last one. It grows with the log
//! until the front of the window advances, so that a request is built from what is new.
//!
//! **Invariant.** A prefix with the contents of the events after it equals the contents of all these events together. So a
//! prefix ends before a message of the user that follows an answer of the agent, and no event after it refers to a call in
//! it.

mod scan;

use crate::{
    flow::contents::{self, HistoryView},
    model::ContentRef,
    window::LogRow,
};
use lock::LockExt;
use scan::PrefixScan;
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

/// The prefixes of a session by agent.
#[derive(Debug, Default)]
pub struct Prefixes(Mutex<BTreeMap<String, Arc<ContentsPrefix>>>);

/// The contents with which an agent's requests begin.
#[derive(Debug, Default)]
pub struct ContentsPrefix {
    /// The sequence numbers of the first event, and of the first event after the prefix.
    rows: Range<u64>,
    contents: Vec<ContentRef>,
    converted: Mutex<Option<Box<dyn ConvertedPrefix>>>,
}

/// The form in which a model adapter keeps a prefix.
pub trait ConvertedPrefix: Any + fmt::Debug + Send + Sync {
    /// Approximate size in memory.
    fn bytes(&self) -> usize;
}

/// Where the events of a window are divided.
#[derive(Debug)]
pub struct DividedWindow {
    pub prefix: Arc<ContentsPrefix>,
    /// The number of events in it.
    pub events: usize,
}

impl Prefixes {
    /// Approximate size in memory.
    pub fn bytes(&self) -> usize {
        self.0.locked().values().map(|prefix| prefix.bytes()).sum()
    }

    /// Divides the window that `view` shows. `None` if it has no prefix. `rows` has one row per event.
    pub fn divide(&self, view: HistoryView<'_>, rows: &[LogRow]) -> Option<DividedWindow> {
        let first = rows.first()?.seq;
        let mut prefixes = self.0.locked();
        let known = prefixes.get(view.agent).filter(|known| known.rows.start == first);
        let from = known.and_then(|known| rows.binary_search_by_key(&known.rows.end, |row| row.seq).ok());
        let grown = from.and_then(|from| {
            let end = PrefixScan::continued(view.agent, &view.events[from..]).end()?;
            Some((from, from + end))
        });
        // An event that refers to a call in the prefix changes it.
        let (from, end) = match grown {
            Some(grown) => grown,
            None => (0, PrefixScan::whole(view.agent, view.events).end()?),
        };
        let prefix = match prefixes.get_mut(view.agent) {
            Some(known) if from > 0 => known,
            _ => {
                prefixes.insert(view.agent.to_owned(), Arc::default());
                prefixes.get_mut(view.agent)?
            }
        };
        if end > from {
            let new = contents::contents(HistoryView { events: &view.events[from..end], ..view });
            ContentsPrefix::make_mut(prefix).extend(first..rows[end].seq, new);
        }
        Some(DividedWindow { prefix: Arc::clone(prefix), events: end })
    }
}

impl ContentsPrefix {
    pub fn contents(&self) -> &[ContentRef] {
        &self.contents
    }

    /// The form in which the model adapter keeps the prefix.
    pub fn converted(&self) -> MutexGuard<'_, Option<Box<dyn ConvertedPrefix>>> {
        self.converted.locked()
    }

    fn extend(&mut self, rows: Range<u64>, new: Vec<ContentRef>) {
        self.rows = rows;
        self.contents.extend(new);
    }

    /// A prefix that an earlier request still holds is copied, except for the converted form.
    fn make_mut(prefix: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(prefix).is_none() {
            let converted = Mutex::new(prefix.converted().take());
            let copy = Self { rows: prefix.rows.clone(), contents: prefix.contents.clone(), converted };
            *prefix = Arc::new(copy);
        }
        Arc::make_mut(prefix)
    }

    fn bytes(&self) -> usize {
        let converted = self.converted().as_ref().map_or(0, |converted| converted.bytes());
        converted + self.contents.capacity() * size_of::<ContentRef>()
    }
}

impl Clone for ContentsPrefix {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), contents: self.contents.clone(), converted: Mutex::default() }
    }
}

/// The converted form follows from the contents.
impl PartialEq for ContentsPrefix {
    fn eq(&self, other: &Self) -> bool {
        self.contents == other.contents
    }
}
