//! Prepares the commit of a batch of events, and applies it to the session in memory once the store has acknowledged
//! it.

use crate::{
    store::{
        events::Upcoming,
        pending, recipe,
        row::save,
        session::SessionAdapter,
        state::{self, StateAdapter},
        usage,
    },
    view::ids,
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    event::Event,
    flow::step::{Step, next_step},
    pending::PendingWork,
    session::{LogEntry, RunEffect, RunEnd},
    state::without_temp,
    window::Fronts,
};
use serde_json::{Map, Value};
use session::{Commit, Committed, RunStatus, SettledMessage};
use std::sync::Arc;

/// The status and error with which an event ends its run.
#[derive(Debug)]
pub(crate) struct RunEnding {
    pub(crate) status: RunStatus,
    pub(crate) error: Option<String>,
}

impl RunEnding {
    /// Downgrades `waiting` to `done` unless one of the open questions was asked by this run: other runs may have
    /// open questions, too.
    fn for_run(self, session: &SessionAdapter, pending: &PendingWork, run: Option<&str>) -> Self {
        let asked_by = |id: &String| session.question_runs.get(id).map(String::as_str).or(run);
        let waits = pending.questions.iter().any(|question| asked_by(&question.id) == run);
        match self.status {
            RunStatus::Waiting if !waits => Self { status: RunStatus::Done, ..self },
            _ => self,
        }
    }
}

/// A commit of events that is not stored yet.
pub(crate) struct PreparedCommit {
    commit: Commit,
    ending: Option<RunEnding>,
    view: CommittedView,
    /// The messages that belong to earlier runs.
    settled: Vec<SettledMessage>,
}

/// The effect of a commit on the session in memory.
pub(crate) struct CommittedView {
    upcoming: Vec<Upcoming>,
    deltas: Vec<Map<String, Value>>,
    pending: PendingWork,
    /// The fronts that the commit advances.
    fronts: Fronts,
    timestamp: Option<f64>,
    titled: bool,
    /// The run that asked the questions of these events.
    asked_by: Option<String>,
    /// The hashes of the recipe texts that the commit stores.
    texts: Vec<String>,
}

impl PreparedCommit {
    /// Prepares the events that `run`, or no run, appends to the session.
    pub(crate) fn new(
        session: &SessionAdapter,
        entries: Vec<LogEntry>,
        run: Option<&str>,
    ) -> Result<Self, ServiceError> {
        let invalid = |error: serde_json::Error| ServiceError::Invalid {
            key: session.key.clone(),
            message: error.to_string(),
        };
        let mut commit = Commit::default();
        let (mut pending, mut ending) = (session.pending.clone(), None);
        let (mut events, mut deltas) = (Vec::with_capacity(entries.len()), Vec::new());
        let (mut settled, mut fronts) = (Vec::new(), Fronts::new());
        for LogEntry { mut event, effect, recipe } in
            entries.into_iter().filter(|entry| !entry.event.is_partial())
        {
            let has_row = !event.is_state_only();
            let delta = state::without_unchanged(&event.actions.state_delta, &session.state);
            event.actions.state_delta = without_temp(&delta);
            deltas.push(delta);
            ids::fill_in(&mut event, &pending);
            let changes = pending.changes(&event);
            for change in &changes {
                pending.apply(change);
            }
            let after = session::Seq(session.last_seq.0 + commit.messages.len() as u64);
            commit.pending.extend(pending::to_rows(&changes, after, run).map_err(invalid)?);
            commit.state.extend(state::changes(&event.actions.state_delta));
            if commit.title.is_none() && !session.has_title {
                commit.title = title(&event);
            }
            ending =
                run_ending(&event, &pending, effect).map(|ending| ending.for_run(session, &pending, run));
            if has_row {
                commit.messages.push(save(&event).map_err(invalid)?);
                commit.usage.extend(usage::entries(&event, recipe.as_deref()));
            }
            if let Some(recipe) = recipe.filter(|_| has_row) {
                if let Some(front) = &recipe.advanced {
                    commit.pending.push(pending::front_row(&recipe.agent, front).map_err(invalid)?);
                    fronts.insert(recipe.agent.clone(), front.clone());
                }
                commit.recipe = Some(recipe::to_row(session, &event.id, *recipe).map_err(invalid)?);
            }
            if has_row && effect == RunEffect::Settles {
                settled.push(SettledMessage { id: event.id.clone(), run: session.settled_run(&event) });
            }
            events.push((event, has_row));
        }
        let view = CommittedView {
            timestamp: events.last().map(|(event, _)| event.timestamp),
            upcoming: upcoming(session, events, &commit),
            deltas,
            pending,
            fronts,
            titled: commit.title.is_some(),
            asked_by: run.map(str::to_owned),
            texts: commit
                .recipe
                .iter()
                .flat_map(|recipe| &recipe.texts)
                .map(|text| text.hash.clone())
                .collect(),
        };
        Ok(Self { commit, ending, view, settled })
    }

    pub(crate) fn take_ending(&mut self) -> Option<RunEnding> {
        self.ending.take()
    }

    /// Runs whose questions these events settle, without `run` itself: they become `cancelled`.
    pub(crate) fn superseded(&self, session: &SessionAdapter, run: &str) -> Vec<String> {
        let is_open = |id: &String| self.view.pending.questions.iter().any(|question| question.id == *id);
        let settled = session.question_runs.iter().filter(|(id, _)| !is_open(id));
        let mut runs: Vec<String> =
            settled.map(|(_, other)| other.clone()).filter(|other| other != run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// Takes the messages that belong to earlier runs.
    pub(crate) fn take_settled(&mut self) -> Vec<SettledMessage> {
        std::mem::take(&mut self.settled)
    }

    pub(crate) fn into_commit(self) -> (Commit, CommittedView) {
        (self.commit, self.view)
    }
}

fn upcoming(session: &SessionAdapter, events: Vec<(Event, bool)>, commit: &Commit) -> Vec<Upcoming> {
    let mut rows = commit.messages.iter();
    let with_row = |(event, has_row): (Event, bool)| (event, if has_row { rows.next() } else { None });
    let events = events.into_iter().map(with_row).collect();
    session.events.prepare(events, session.last_seq)
}

impl CommittedView {
    /// The pending work after the commit.
    pub(crate) fn pending(&self) -> &PendingWork {
        &self.pending
    }

    /// Applies an acknowledged commit to the session and returns the events in their wire form.
    pub(crate) fn apply(self, session: &mut SessionAdapter, committed: Committed) -> Vec<Arc<Event>> {
        let is_known = |upcoming: &Upcoming| session.events.contains(upcoming.id());
        if committed.repeated && self.upcoming.iter().all(is_known) {
            return self.upcoming.into_iter().map(Upcoming::into_event).collect();
        }
        let state: &mut StateAdapter = &mut session.state;
        state.merge_shared(committed.started.map(|started| started.shared).unwrap_or_default());
        for delta in &self.deltas {
            state.apply(delta);
        }
        session
            .question_runs
            .retain(|id, _| self.pending.questions.iter().any(|question| question.id == *id));
        if let Some(run) = &self.asked_by {
            for question in &self.pending.questions {
                session.question_runs.entry(question.id.clone()).or_insert_with(|| run.clone());
            }
        }
        session.pending = self.pending;
        session.fronts.extend(self.fronts);
        session.last_seq = session.last_seq.max(committed.seq);
        session.last_update_time = self.timestamp.unwrap_or(session.last_update_time);
        session.has_title |= self.titled;
        recipe::remember_texts(&mut session.known_texts, self.texts);
        self.upcoming.into_iter().map(|upcoming| session.events.push(upcoming)).collect()
    }
}

/// The run's ending, if this event ends it.
fn run_ending(event: &Event, pending: &PendingWork, effect: RunEffect) -> Option<RunEnding> {
    let status = match effect {
        RunEffect::Continues | RunEffect::Settles => return None,
        RunEffect::Ends(RunEnd::Cancelled) => {
            return Some(RunEnding {
                status: RunStatus::Cancelled,
                error: Some(RunError::Cancelled.to_string()),
            });
        }
        RunEffect::Ends(RunEnd::Failed) => RunStatus::Failed,
        RunEffect::ByLog => {
            // While a question is open, the other results of the step are still outstanding.
            let is_over = !event.is_from_user()
                && pending.open_calls.is_empty()
                && next_step(Some(event), pending) == Step::Done;
            match (&event.error_code, pending.questions.is_empty()) {
                _ if !is_over => return None,
                (Some(_), _) => RunStatus::Failed,
                (None, false) => RunStatus::Waiting,
                (None, true) => RunStatus::Done,
            }
        }
    };
    Some(RunEnding { status, error: event.error_message.clone() })
}

/// The first line of the first user message becomes the session's title.
fn title(event: &Event) -> Option<String> {
    let text = event.content.as_ref().filter(|_| event.is_from_user()).map(Content::text)?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(80).collect())
}
