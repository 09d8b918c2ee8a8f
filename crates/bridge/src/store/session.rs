//! SessionAdapter: a stored session as ADK's `Session`.

use crate::{
    store::{cache::CachedSession, draft, events::EventsAdapter, pending, state::StateAdapter},
    view::budget::Budget,
};
use adk::{
    event::Event,
    pending::PendingWork,
    prefix::Prefixes,
    session::{Session, SessionKey},
    window::{Fronts, LoadedLog},
};
use serde_json::{Map, Value};
use session::{Seq, Snapshot};
use std::{collections::HashMap, sync::Arc};

/// A session in memory: the window of its log, its state, and its pending work.
#[derive(Clone, Debug)]
pub struct SessionAdapter {
    pub(crate) key: SessionKey,
    pub(crate) events: EventsAdapter,
    pub(crate) state: StateAdapter,
    pub(crate) pending: PendingWork,
    pub(crate) last_seq: Seq,
    pub(crate) created_at: f64,
    pub(crate) last_update_time: f64,
    pub(crate) has_title: bool,
    /// The epoch of the cached copy, if the session came from the cache and has not been compared with the store.
    pub(crate) cached_epoch: Option<u64>,
    /// The waiting runs, by the id of the question that each has asked.
    pub(crate) question_runs: HashMap<String, String>,
    /// The event of an interrupted answer: text that a process streamed before it died.
    pub(crate) draft: Option<Box<Event>>,
    /// The run that wrote the draft.
    pub(crate) draft_run: Option<String>,
    /// Where the requests of each agent begin.
    pub(crate) fronts: Fronts,
    /// The budget with which sessions are loaded.
    pub(crate) budget: Budget,
    /// What the requests of each agent begin with, kept until the session leaves the cache.
    pub(crate) prefixes: Arc<Prefixes>,
    /// The hashes of recipe texts that are stored for this session.
    pub(crate) known_texts: Vec<String>,
}

impl SessionAdapter {
    pub(crate) fn new(key: SessionKey, snapshot: Snapshot, root_agent: &str, budget: Budget) -> Self {
        let events = EventsAdapter::new(root_agent, &snapshot.tail, budget, snapshot.truncated);
        Self::with_events(key, snapshot, events, budget)
    }

    /// Builds the session from a snapshot and events that are in memory already.
    pub(crate) fn with_events(
        key: SessionKey,
        snapshot: Snapshot,
        events: EventsAdapter,
        budget: Budget,
    ) -> Self {
        Self {
            key,
            events,
            state: StateAdapter::new(snapshot.state),
            pending: pending::from_rows(&snapshot.pending),
            last_seq: snapshot.row.last_seq,
            created_at: snapshot.row.created_at,
            last_update_time: snapshot.row.updated_at,
            has_title: snapshot.row.title.is_some(),
            cached_epoch: None,
            question_runs: pending::question_runs(&snapshot.pending),
            draft: snapshot.draft.as_ref().and_then(draft::restore).map(Box::new),
            draft_run: snapshot.draft.map(|draft| draft.run),
            fronts: pending::fronts(&snapshot.pending),
            budget,
            prefixes: Arc::default(),
            known_texts: Vec::new(),
        }
    }

    /// The copy that the next turn may start from. A session with open calls or questions is not cached: its pending
    /// work can change without a new log row.
    pub(crate) fn to_cached(&self, epoch: u64) -> Option<CachedSession> {
        let PendingWork { active_agent, open_calls, questions, deferred: _ } = &self.pending;
        let pending = PendingWork { active_agent: active_agent.clone(), ..PendingWork::default() };
        let is_settled = open_calls.is_empty() && questions.is_empty();
        // A log that no longer fits is cut at a front, so that the next turn need not read it again.
        let events = || {
            let fits = self.events.fits(self.budget);
            if fits { self.events.clone() } else { self.events.cut_at_front(&self.fronts, self.budget) }
        };
        let copy = || Self {
            key: self.key.clone(),
            events: events(),
            state: self.state.session_scoped(),
            pending,
            question_runs: HashMap::new(),
            draft: None,
            draft_run: None,
            fronts: self.fronts.clone(),
            prefixes: Arc::clone(&self.prefixes),
            known_texts: self.known_texts.clone(),
            ..*self
        };
        is_settled.then(|| CachedSession { session: copy(), epoch })
    }

    /// The run that an event settles: the one that wrote the draft or asked the question; `None` if that is unknown.
    pub(crate) fn settled_run(&self, event: &Event) -> Option<String> {
        if self.draft.as_ref().is_some_and(|draft| draft.id == event.id) {
            return self.draft_run.clone();
        }
        let content = event.content.as_ref()?;
        content.responses().find_map(|response| self.question_runs.get(&response.id_or_name())).cloned()
    }

    /// The events in the window.
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

    fn loaded(&self) -> LoadedLog<'_> {
        LoadedLog { prefixes: Some(&self.prefixes), ..self.events.loaded(&self.fronts, self.budget) }
    }

    fn pending(&self) -> &PendingWork {
        &self.pending
    }

    fn draft(&self) -> Option<&Event> {
        self.draft.as_deref()
    }

    fn state(&self) -> &Map<String, Value> {
        self.state.all()
    }
}
