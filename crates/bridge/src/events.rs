//! EventsAdapter: rows of the store as ADK's events, within the budget.

use crate::{budget::Budget, history, row::Restorer};
use adk::event::Event;
use session::Stored;
use std::sync::Arc;

/// The history of a session in memory. Appended events become visible at once, in the order of insertion.
#[derive(Clone, Debug)]
pub struct EventsAdapter {
    events: Vec<Arc<Event>>,
    restorer: Restorer,
    /// What the rows of these events count.
    tokens: u64,
}

impl EventsAdapter {
    /// `cut` says that the rows are the end of a longer log.
    pub fn new(root_agent: &str, rows: &[Stored], budget: Budget, cut: bool) -> Self {
        let window = history::window(rows, budget, cut);
        let mut restorer = Restorer::new(root_agent);
        // Rows before the window are read for what they say about rows in it: answers by position.
        let before = rows[..window.start].iter().rev().take(1);
        for row in before {
            restorer.restore(row);
        }
        let mut adapter = Self { events: Vec::with_capacity(window.len() + 8), restorer, tokens: 0 };
        for row in &rows[window] {
            adapter.show(row);
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

    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) fn holds(&self, id: &str) -> bool {
        self.events.iter().rev().any(|event| event.id == id)
    }

    /// Shows a row that was stored just now; answers with the event as the wire has it.
    pub(crate) fn show(&mut self, row: &Stored) -> Event {
        let event = self.restorer.restore(row);
        self.tokens += u64::from(row.message.tokens);
        self.events.push(Arc::new(as_shown(event.clone())));
        event
    }
}

/// Answers of tools have the role `function` here (spec M1); the row and the wire keep their own.
fn as_shown(mut event: Event) -> Event {
    if let Some(content) = event.content.as_mut()
        && !content.parts.is_empty()
        && content.parts.iter().all(|part| part.response().is_some())
    {
        content.role = Some("function".to_owned());
    }
    event
}
