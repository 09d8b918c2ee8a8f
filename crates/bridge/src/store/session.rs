//! SessionAdapter: a stored session as ADK sees it.

use crate::{
    store::{cache::CachedSession, draft, events::EventsAdapter, facts, state::StateAdapter},
    view::budget::Budget,
};
use adk::{
    event::Event,
    pending::PendingWork,
    session::{Session, SessionKey},
};
use serde_json::{Map, Value};
use session::{Seq, Snapshot};
use shared_text::SharedText;
use std::{collections::HashMap, sync::Arc};

/// A session in memory: the end of its log, its state, and the facts that lie before that end.
#[derive(Clone, Debug)]
pub struct SessionAdapter {
    pub(crate) key: SessionKey,
    pub(crate) events: EventsAdapter,
    pub(crate) state: StateAdapter,
    pub(crate) facts: PendingWork,
    pub(crate) last_seq: Seq,
    pub(crate) created_at: f64,
    pub(crate) last_update_time: f64,
    pub(crate) has_title: bool,
    /// The epoch that the cached copy was left with, if this is one that was not compared with the store.
    pub(crate) cached_epoch: Option<u64>,
    /// The runs that wait for the answers to questions, by the id of the question.
    pub(crate) question_runs: HashMap<String, String>,
    /// Text that a process showed before it died, as the event that it becomes.
    pub(crate) draft: Option<Box<Event>>,
    /// The run that wrote the draft.
    pub(crate) draft_run: Option<String>,
}

impl SessionAdapter {
    pub(crate) fn new(key: SessionKey, snapshot: Snapshot, root_agent: &str, budget: Budget) -> Self {
        let events = EventsAdapter::new(root_agent, &snapshot.tail, budget, snapshot.truncated);
        Self::with_events(key, snapshot, events)
    }

    /// The session of a snapshot, with events that are in memory already.
    pub(crate) fn with_events(key: SessionKey, snapshot: Snapshot, events: EventsAdapter) -> Self {
        Self {
            key,
            events,
            state: StateAdapter::new(snapshot.state),
            facts: facts::from_rows(&snapshot.facts),
            last_seq: snapshot.row.last_seq,
            created_at: snapshot.row.created_at,
            last_update_time: snapshot.row.updated_at,
            has_title: snapshot.row.title.is_some(),
            cached_epoch: None,
            question_runs: facts::question_runs(&snapshot.facts),
            draft: snapshot.draft.as_ref().and_then(draft::restore).map(Box::new),
            draft_run: snapshot.draft.map(|draft| draft.run),
        }
    }

    /// What the next turn may begin with. A session that waits for something is read instead: what it waits for changes
    /// without a trace in the log.
    pub(crate) fn to_keep(&self, epoch: u64) -> Option<CachedSession> {
        let PendingWork { active_agent, open_calls, questions, deferred: _ } = &self.facts;
        let facts = PendingWork { active_agent: active_agent.clone(), ..PendingWork::default() };
        let rests = open_calls.is_empty() && questions.is_empty();
        let keep = || Self {
            key: self.key.clone(),
            events: self.events.clone(),
            state: self.state.own(),
            facts,
            question_runs: HashMap::new(),
            draft: None,
            draft_run: None,
            ..*self
        };
        rests.then(|| CachedSession { session: keep(), epoch })
    }

    /// The run that an event settles: the one that wrote the draft or asked the question; `None` if that is unknown.
    pub(crate) fn settled_run(&self, event: &Event) -> Option<String> {
        if self.draft.as_ref().is_some_and(|draft| draft.id == event.id) {
            return self.draft_run.clone();
        }
        let content = event.content.as_ref()?;
        content.responses().find_map(|response| self.question_runs.get(&response.id_or_name())).cloned()
    }

    /// The history, as the adapter of the seeds shows it.
    pub fn events_adapter(&self) -> &EventsAdapter {
        &self.events
    }

    pub fn state_adapter(&self) -> &StateAdapter {
        &self.state
    }
}

impl Session for SessionAdapter {
    fn key(&self) -> &SessionKey {
        &self.key
    }

    fn events(&self) -> &[Arc<Event>] {
        self.events.all()
    }

    fn task(&self) -> Option<&SharedText> {
        self.events.task()
    }

    fn pending(&self) -> &PendingWork {
        &self.facts
    }

    fn draft(&self) -> Option<&Event> {
        self.draft.as_deref()
    }

    fn state(&self) -> &Map<String, Value> {
        self.state.all()
    }
}
