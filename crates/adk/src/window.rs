//! The context window of an agent: the part of the log that its requests show, from a front to the end.
//!
//! The front advances in strides. A window that moved with every turn would change the beginning of every request, and no
//! request would hit the provider's prompt cache. So the front stays where it is until the window exceeds its budget, and
//! then advances far enough that only a part of the budget is used. It is stored by the commit that records the answer,
//! and every process that loads the session builds the same requests.

use crate::{event::Event, prefix::Prefixes};
use serde::{Deserialize, Serialize};
use shared_text::SharedText;
use std::{collections::BTreeMap, sync::Arc};

/// The first event that an agent's requests show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Front {
    /// The sequence number of its row.
    pub first: u64,
    /// The user's last request before it, quoted by requests that do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<SharedText>,
}

/// The fronts of a session by agent. An agent without a front sees the whole log.
pub type Fronts = BTreeMap<String, Front>;

/// What the store knows of a loaded event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRow {
    /// The sequence number. The numbers of a log increase, but not always by one.
    pub seq: u64,
    pub tokens: u32,
}

/// How much of a log is loaded: a window that is larger would lose its beginning at the next load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBudget {
    pub tokens: u64,
    pub rows: usize,
}

impl LoadBudget {
    pub const UNLIMITED: Self = Self { tokens: u64::MAX, rows: usize::MAX };

    fn admits(self, rows: &[LogRow]) -> bool {
        rows.len() <= self.rows && rows.iter().map(|row| u64::from(row.tokens)).sum::<u64>() <= self.tokens
    }
}

/// The loaded end of a log, as far as the choice of a window depends on it.
#[derive(Clone, Copy, Debug)]
pub struct LoadedLog<'a> {
    pub events: &'a [Arc<Event>],
    /// One row per event. Without rows, the whole log is shown.
    pub rows: &'a [LogRow],
    /// Whether the log has older events that are not loaded.
    pub is_cut: bool,
    /// The user's last request before the loaded events, if they contain none.
    pub user_request: Option<&'a SharedText>,
    pub fronts: &'a Fronts,
    /// What is loaded of a log, and the part of it that an advance retains.
    pub budget: LoadBudget,
    pub retained: LoadBudget,
    /// The kept prefixes of requests. Without them, every request is built from the whole window.
    pub prefixes: Option<&'a Prefixes>,
}

impl<'a> LoadedLog<'a> {
    /// A log that is in memory as a whole.
    pub const fn whole(events: &'a [Arc<Event>]) -> Self {
        const NONE: &Fronts = &Fronts::new();
        Self {
            events,
            rows: &[],
            is_cut: false,
            user_request: None,
            fronts: NONE,
            budget: LoadBudget::UNLIMITED,
            retained: LoadBudget::UNLIMITED,
            prefixes: None,
        }
    }
}

/// Which budget a window is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowShare {
    /// The whole budget. A window that exceeds it advances.
    Whole,
    /// The part of the budget that an advance retains.
    Retained,
}

/// The window of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Window {
    /// The index of the first event.
    pub(crate) start: usize,
    /// The user's last request before it, if the window does not begin with the log.
    pub(crate) user_request: Option<SharedText>,
    /// The new front, if this request advances it.
    pub(crate) advanced: Option<Front>,
}

/// The window of `agent`. `fits` tells whether a window fits a share of the model's budget.
///
/// The choice depends on the log from the stored front on, and on nothing else, so that it is the same after a restart.
pub(crate) fn choose(log: LoadedLog<'_>, agent: &str, fits: impl Fn(&Window, WindowShare) -> bool) -> Window {
    let stored = log.fronts.get(agent);
    let current = current(log, stored);
    let oldest = log.rows.first().map_or(0, |row| row.seq);
    let is_lost = log.is_cut && stored.is_none_or(|front| front.first < oldest);
    let rows = log.rows.get(current.start..).unwrap_or_default();
    if rows.is_empty() || (!is_lost && log.budget.admits(rows) && fits(&current, WindowShare::Whole)) {
        return current;
    }
    let boundaries = boundaries(log.events, current.start, is_lost);
    let admitted = |window: &Window, share: WindowShare| {
        let budget = match share {
            WindowShare::Whole => log.budget,
            WindowShare::Retained => log.retained,
        };
        budget.admits(&log.rows[window.start..]) && fits(window, share)
    };
    // Shorter windows cost less, so the longest one that fits is found by bisection.
    let longest = |share: WindowShare| {
        let (mut low, mut high) = (0, boundaries.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let fits = admitted(&advanced(log, boundaries[middle], stored), share);
            if fits { high = middle } else { low = middle + 1 }
        }
        boundaries.get(low).copied()
    };
    // An exchange that is larger than the retained part keeps what fits beside it. The newest exchange always stays.
    let start = longest(WindowShare::Retained).or_else(|| longest(WindowShare::Whole));
    start.or(boundaries.last().copied()).map_or(current, |start| advanced(log, start, stored))
}

/// The window from the stored front.
fn current(log: LoadedLog<'_>, stored: Option<&Front>) -> Window {
    let start = stored.map_or(0, |front| log.rows.partition_point(|row| row.seq < front.first));
    // A front behind the whole log belongs to another log.
    let start = if start < log.events.len() { start } else { 0 };
    let user_request = match stored {
        Some(front) if start > 0 || log.is_cut => front.request.clone(),
        Some(_) | None => log.user_request.cloned(),
    };
    Window { start, user_request, advanced: None }
}

fn advanced(log: LoadedLog<'_>, start: usize, stored: Option<&Front>) -> Window {
    let before = log.events[..start].iter().rev().find_map(|event| event.user_request());
    let known = || stored.and_then(|front| front.request.clone()).or_else(|| log.user_request.cloned());
    let user_request = before.or_else(known);
    let front = Front { first: log.rows[start].seq, request: user_request.clone() };
    Window { start, user_request, advanced: Some(front) }
}

/// The indexes after `start` at which an exchange begins, and `start` itself if it is new: a user's message, or an event of
/// an agent that is more than the results of calls. No boundary separates a call from its first result; a later result of
/// a deferred call may be shown without it.
fn boundaries(events: &[Arc<Event>], start: usize, include_start: bool) -> Vec<usize> {
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    // By index: how many calls before it have their first result at or after it.
    let mut pairs = vec![0_isize; events.len() - start + 1];
    for (index, event) in events[start..].iter().enumerate() {
        for response in event.responses() {
            if let Some(call) = open.remove(&response.id_or_name()) {
                pairs[call + 1] += 1;
                pairs[index + 1] -= 1;
            }
        }
        open.extend(event.calls().map(|call| (call.id_or_name(), index)));
    }
    let mut crossing = 0;
    let mut boundaries = Vec::new();
    for (index, event) in events[start..].iter().enumerate() {
        crossing += pairs[index];
        if crossing == 0 && event.begins_exchange() && (index > 0 || include_start) {
            boundaries.push(start + index);
        }
    }
    boundaries
}

#[cfg(test)]
mod tests;
