//! EventsAdapter: the window of stored rows as ADK events, within the token budget.

mod held;

use crate::{
    store::{row::Restorer, user_request},
    view::{budget::Budget, history},
};
use adk::{
    content::Content,
    event::Event,
    window::{Front, Fronts, LoadedLog, LogRow, WindowShare},
};
use session::{Seq, SessionMessage, StoredMessage};
use shared_text::SharedText;
use std::sync::Arc;

/// The events of a session in memory. Appended events are visible at once, in order of insertion.
#[derive(Clone, Debug)]
pub struct EventsAdapter {
    /// Shared with the cached copy. Copy-on-write: `Arc::make_mut` appends in place if there is no other reference.
    events: Arc<Vec<Arc<Event>>>,
    restorer: Restorer,
    /// One row per event; shared like the events.
    rows: Arc<Vec<LogRow>>,
    /// Whether the log has older rows.
    is_cut: bool,
    /// The user's last request before these events, unless the first of them contains one.
    user_request: Option<SharedText>,
    /// Sum of the rows' token counts.
    tokens: u64,
    /// Approximate size in memory.
    bytes: usize,
}

/// An event that is being stored, in the form in which its row will restore it.
#[derive(Debug)]
pub(crate) struct Upcoming {
    event: Arc<Event>,
    /// `None` for an event without a row (a state delta alone), which does not enter the history.
    row: Option<RowInfo>,
}

/// Data of a row besides its event.
#[derive(Debug)]
struct RowInfo {
    seq: Seq,
    restorer: Restorer,
    tokens: u32,
    bytes: usize,
}

impl RowInfo {
    fn new(seq: Seq, (row, event): (&SessionMessage, &Event), restorer: Restorer) -> Self {
        Self { seq, restorer, tokens: row.tokens, bytes: held::by_event(event) }
    }
}

impl Upcoming {
    pub(crate) fn id(&self) -> &str {
        &self.event.id
    }

    pub(crate) fn into_event(self) -> Arc<Event> {
        self.event
    }
}

impl EventsAdapter {
    /// `cut` means that the rows are the end of a longer log.
    pub fn new(root_agent: &str, rows: &[StoredMessage], budget: Budget, cut: bool) -> Self {
        let range = history::window(rows, budget, cut);
        let (before, window) = rows.split_at(range.start);
        let mut adapter = Self::from_rows(root_agent, before, window);
        adapter.is_cut = cut || !before.is_empty();
        if !before.is_empty() && adapter.lacks_user_request() {
            adapter.set_user_request(user_request::last_request_in(before, root_agent));
        }
        adapter
    }

    /// The events of all rows from `first` on. A row before them may hold calls that they answer by position.
    pub(crate) fn restored(root_agent: &str, rows: &[StoredMessage], first: Seq) -> Self {
        let (before, window) = rows.split_at(rows.partition_point(|row| row.seq < first));
        Self::from_rows(root_agent, before, window)
    }

    fn from_rows(root_agent: &str, before: &[StoredMessage], window: &[StoredMessage]) -> Self {
        let mut restorer = Restorer::new(root_agent);
        // A row before the window may hold calls that rows in the window answer by position.
        restorer.skip_all(before);
        let events = Arc::new(Vec::with_capacity(window.len() + 8));
        let rows = Arc::new(Vec::with_capacity(window.len() + 8));
        let mut adapter =
            Self { events, restorer, rows, is_cut: false, user_request: None, tokens: 0, bytes: 0 };
        for row in window {
            let mut restorer = adapter.restorer.clone();
            let event = Arc::new(restorer.restore(row));
            let info = RowInfo::new(row.seq, (&row.message, &event), restorer);
            adapter.push(Upcoming { event, row: Some(info) });
        }
        adapter
    }

    pub(crate) fn root_agent(&self) -> &str {
        self.restorer.root_agent()
    }

    /// The loaded log with its rows, for the choice of a window.
    pub(crate) fn loaded<'a>(&'a self, fronts: &'a Fronts, budget: Budget) -> LoadedLog<'a> {
        LoadedLog {
            events: &self.events,
            rows: &self.rows,
            is_cut: self.is_cut,
            user_request: self.user_request.as_ref(),
            fronts,
            budget: budget.load(),
            retained: budget.share(WindowShare::Retained).load(),
            prefixes: None,
        }
    }

    pub fn all(&self) -> &[Arc<Event>] {
        &self.events
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn at(&self, index: usize) -> Option<&Event> {
        self.events.get(index).map(AsRef::as_ref)
    }

    /// The user's last request before these events, unless the first of them contains one.
    pub fn user_request(&self) -> Option<&SharedText> {
        self.user_request.as_ref()
    }

    pub(crate) fn lacks_user_request(&self) -> bool {
        self.user_request.is_none() && self.events.first().is_none_or(|event| event.user_request().is_none())
    }

    pub(crate) fn set_user_request(&mut self, user_request: Option<SharedText>) {
        self.bytes += user_request.as_ref().map_or(0, |user_request| user_request.len());
        self.user_request = user_request;
    }

    /// Whether the events are within 5/4 of the budget. Above that, a cached session is read again, so that its window starts at
    /// the position that the budget determines.
    pub(crate) fn fits(&self, budget: Budget) -> bool {
        let most = u64::from(budget.tokens()) * 5 / 4;
        self.tokens <= most && budget.max_messages().is_none_or(|most| self.len() <= most)
    }

    /// The events from the oldest front on that the budget loads. Unchanged if there is no such front.
    pub(crate) fn cut_at_front(&self, fronts: &Fronts, budget: Budget) -> Self {
        let loaded = budget.load();
        let (mut tokens, mut oldest) = (0_u64, self.rows.len());
        for (index, row) in self.rows.iter().enumerate().rev().take(loaded.rows) {
            tokens += u64::from(row.tokens);
            if tokens > loaded.tokens {
                break;
            }
            oldest = index;
        }
        let reachable = |front: &&Front| self.rows.get(oldest).is_some_and(|row| front.first >= row.seq);
        let front = fronts.values().filter(reachable).min_by_key(|front| front.first);
        let start = front.map_or(0, |front| self.rows.partition_point(|row| row.seq < front.first));
        if start == 0 || start == self.rows.len() {
            return self.clone();
        }
        let removed: u64 = self.rows[..start].iter().map(|row| u64::from(row.tokens)).sum();
        Self {
            events: Arc::new(self.events[start..].to_vec()),
            rows: Arc::new(self.rows[start..].to_vec()),
            is_cut: true,
            user_request: front.and_then(|front| front.request.clone()),
            tokens: self.tokens - removed,
            bytes: self.events[start..].iter().map(|event| held::by_event(event)).sum(),
            restorer: self.restorer.clone(),
        }
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.events.iter().rev().any(|event| event.id == id)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Prepares events for one commit after sequence number `after`. An event without calls equals the event that its
    /// row restores; an event with calls is restored from its row, because the row may add call ids.
    pub(crate) fn prepare(&self, events: Vec<(Event, Option<&SessionMessage>)>, after: Seq) -> Vec<Upcoming> {
        let (mut restorer, mut seq) = (self.restorer.clone(), after);
        let upcoming = |(event, row): (Event, Option<&SessionMessage>)| {
            let Some(row) = row else { return Upcoming { event: Arc::new(event), row: None } };
            seq = seq.next();
            let event = if row.tool_calls.is_empty() {
                restorer.skip(row);
                event
            } else {
                restorer.restore(&StoredMessage { seq, message: row.clone() })
            };
            let info = RowInfo::new(seq, (row, &event), restorer.clone());
            Upcoming { event: Arc::new(event), row: Some(info) }
        };
        events.into_iter().map(upcoming).collect()
    }

    /// Appends a stored event to the history and returns its wire form.
    pub(crate) fn push(&mut self, upcoming: Upcoming) -> Arc<Event> {
        let Upcoming { event, row } = upcoming;
        if let Some(RowInfo { seq, restorer, tokens, bytes }) = row {
            Arc::make_mut(&mut self.rows).push(LogRow { seq: seq.0, tokens });
            self.restorer = restorer;
            self.tokens += u64::from(tokens);
            self.bytes += bytes;
            Arc::make_mut(&mut self.events).push(with_function_role(&event));
        }
        event
    }
}

/// Sets the role `function` on tool results (spec M1). Only the history in memory uses this role; the row and the
/// wire keep theirs.
fn with_function_role(event: &Arc<Event>) -> Arc<Event> {
    let is_tool_result =
        |content: &Content| content.responses().next().is_some() && content.calls().next().is_none();
    let mut converted = Arc::clone(event);
    if event.content.as_ref().is_some_and(is_tool_result)
        && let Some(content) = Arc::make_mut(&mut converted).content.as_mut()
    {
        content.role = Some("function".to_owned());
    }
    converted
}
