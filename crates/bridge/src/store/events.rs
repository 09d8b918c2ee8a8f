//! EventsAdapter: rows of the store as ADK's events, within the budget.

use crate::{
    store::{row::Restorer, task},
    view::{budget::Budget, history},
};
use adk::{
    content::{Content, Part},
    event::Event,
};
use session::{Seq, SessionMessage, StoredMessage};
use shared_text::SharedText;
use std::sync::Arc;

/// The history of a session in memory. Appended events become visible at once, in the order of insertion.
#[derive(Clone, Debug)]
pub struct EventsAdapter {
    /// Shared with the copy that outlives the turn; whoever is alone with it adds to it in place.
    events: Arc<Vec<Arc<Event>>>,
    restorer: Restorer,
    /// What the user asked for before these events, if none of those that were read says it.
    task: Option<SharedText>,
    /// What the rows of these events count.
    tokens: u64,
    /// What they take in memory, about.
    bytes: usize,
}

/// An event that is being stored, as its row will give it back.
#[derive(Debug)]
pub(crate) struct Upcoming {
    event: Arc<Event>,
    /// `None` for one that leaves no row, and is not shown.
    row: Option<Mark>,
}

const TEXT_BYTES: usize = 80;

/// What a row adds to the history beside its event.
#[derive(Debug)]
struct Mark {
    restorer: Restorer,
    tokens: u64,
    bytes: usize,
}

impl Mark {
    fn of(row: &SessionMessage, restorer: Restorer) -> Self {
        // An event takes more than its row if the row is short. A text is an allocation of its own, in another.
        let bytes = row.size() + size_of::<Event>() + size_of::<Part>() + TEXT_BYTES;
        Self { restorer, tokens: row.tokens.into(), bytes }
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
    /// `cut` says that the rows are the end of a longer log.
    pub fn new(root_agent: &str, rows: &[StoredMessage], budget: Budget, cut: bool) -> Self {
        let window = history::window(rows, budget, cut);
        let mut restorer = Restorer::new(root_agent);
        // Rows before the window are read for what they say about rows in it: answers by position.
        let (before, shown) = rows.split_at(window.start);
        for row in before.iter().rev().take(1) {
            restorer.restore(row);
        }
        let events = Arc::new(Vec::with_capacity(window.len() + 8));
        let mut adapter = Self { events, restorer, task: None, tokens: 0, bytes: 0 };
        for row in shown {
            let mut restorer = adapter.restorer.clone();
            let event = Arc::new(restorer.restore(row));
            adapter.show(Upcoming { event, row: Some(Mark::of(&row.message, restorer)) });
        }
        if !before.is_empty() && adapter.lacks_task() {
            adapter.bring(task::last_in(before, root_agent));
        }
        adapter
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

    /// What the user asked for before the events, if none of those that were read says it.
    pub fn task(&self) -> Option<&SharedText> {
        self.task.as_ref()
    }

    pub(crate) fn lacks_task(&self) -> bool {
        self.task.is_none() && !self.events.iter().rev().any(|event| task::of(event).is_some())
    }

    pub(crate) fn bring(&mut self, task: Option<SharedText>) {
        self.bytes += task.as_ref().map_or(0, |task| task.len());
        self.task = task;
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) fn holds(&self, id: &str) -> bool {
        self.events.iter().rev().any(|event| event.id == id)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Events that are about to be stored as these rows, in one commit after that place. One without calls is what its row
    /// gives back; calls may get their ids from it.
    pub(crate) fn about_to_store(
        &self,
        events: Vec<(Event, Option<&SessionMessage>)>,
        after: Seq,
    ) -> Vec<Upcoming> {
        let (mut restorer, mut seq) = (self.restorer.clone(), after);
        let upcoming = |(event, row): (Event, Option<&SessionMessage>)| {
            let Some(row) = row else { return Upcoming { event: Arc::new(event), row: None } };
            seq = seq.next();
            let event = if row.tool_calls.is_empty() {
                restorer.pass(row);
                event
            } else {
                restorer.restore(&StoredMessage { seq, message: row.clone() })
            };
            Upcoming { event: Arc::new(event), row: Some(Mark::of(row, restorer.clone())) }
        };
        events.into_iter().map(upcoming).collect()
    }

    /// Shows an event that was stored just now; answers with it as the wire has it.
    pub(crate) fn show(&mut self, upcoming: Upcoming) -> Arc<Event> {
        let Upcoming { event, row } = upcoming;
        if let Some(Mark { restorer, tokens, bytes }) = row {
            self.restorer = restorer;
            self.tokens += tokens;
            self.bytes += bytes;
            Arc::make_mut(&mut self.events).push(as_shown(&event));
        }
        event
    }
}

/// Answers of tools have the role `function` here (spec M1); the row and the wire keep their own.
fn as_shown(event: &Arc<Event>) -> Arc<Event> {
    let answers = |content: &Content| {
        !content.parts.is_empty() && content.parts.iter().all(|part| part.response().is_some())
    };
    let mut shown = Arc::clone(event);
    if event.content.as_ref().is_some_and(answers)
        && let Some(content) = Arc::make_mut(&mut shown).content.as_mut()
    {
        content.role = Some("function".to_owned());
    }
    shown
}
