//! Events on their way into the log: what one commit stores for them, and what the session shows once it is stored.

use crate::store::{
    events::Upcoming,
    facts,
    row::save,
    session::SessionAdapter,
    state::{self, StateAdapter},
};
use adk::{
    content::Content,
    error::{RunError, ServiceError},
    event::Event,
    flow::step::{Step, next_step},
    pending::PendingWork,
    session::{LogEntry, RunEffect, RunEnd},
    state::without_temp,
};
use serde_json::{Map, Value};
use session::{Commit, Committed, RunStatus, SettledMessage};
use std::sync::Arc;

/// How a run ends with an event.
#[derive(Debug)]
pub(crate) struct RunEnding {
    pub(crate) status: RunStatus,
    pub(crate) error: Option<String>,
}

impl RunEnding {
    /// A run waits for answers to its own questions only: those of other runs may be open, too.
    fn of_run(self, session: &SessionAdapter, facts: &PendingWork, run: Option<&str>) -> Self {
        let asked_by = |id: &String| session.question_runs.get(id).map(String::as_str).or(run);
        let waits = facts.questions.iter().any(|question| asked_by(&question.id) == run);
        match self.status {
            RunStatus::Waiting if !waits => Self { status: RunStatus::Done, ..self },
            _ => self,
        }
    }
}

/// A commit of events, before it is stored.
pub(crate) struct PreparedCommit {
    commit: Commit,
    ending: Option<RunEnding>,
    shown: CommittedView,
    /// The messages that belong to earlier runs.
    settled: Vec<SettledMessage>,
}

/// What the session shows once the commit is stored.
pub(crate) struct CommittedView {
    upcoming: Vec<Upcoming>,
    deltas: Vec<Map<String, Value>>,
    facts: PendingWork,
    timestamp: Option<f64>,
    titled: bool,
    /// Questions that the events asked, with the run that asked them.
    asked_by: Option<String>,
}

impl PreparedCommit {
    /// What to store for events that a run, or none, appends to the session.
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
        let (mut facts, mut ending) = (session.facts.clone(), None);
        let (mut events, mut deltas) = (Vec::with_capacity(entries.len()), Vec::new());
        let mut settled = Vec::new();
        for LogEntry { mut event, effect } in entries.into_iter().filter(|entry| !entry.event.is_partial()) {
            let is_kept = !event.is_state_only();
            let delta = state::news(&event.actions.state_delta, &session.state);
            event.actions.state_delta = without_temp(&delta);
            deltas.push(delta);
            let changes = facts.changes(&event);
            for change in &changes {
                facts.apply(change);
            }
            let after = session::Seq(session.last_seq.0 + commit.messages.len() as u64);
            commit.facts.extend(facts::to_rows(&changes, after, run).map_err(invalid)?);
            commit.state.extend(state::changes(&event.actions.state_delta));
            if commit.title.is_none() && !session.has_title {
                commit.title = title(&event);
            }
            ending = ending_of(&event, &facts, effect).map(|ending| ending.of_run(session, &facts, run));
            if is_kept {
                commit.messages.push(save(&event).map_err(invalid)?);
            }
            if is_kept && effect == RunEffect::Settles {
                settled.push(SettledMessage { id: event.id.clone(), run: session.settled_run(&event) });
            }
            events.push((event, is_kept));
        }
        let shown = CommittedView {
            timestamp: events.last().map(|(event, _)| event.timestamp),
            upcoming: upcoming(session, events, &commit),
            deltas,
            facts,
            titled: commit.title.is_some(),
            asked_by: run.map(str::to_owned),
        };
        Ok(Self { commit, ending, shown, settled })
    }

    pub(crate) fn take_ending(&mut self) -> Option<RunEnding> {
        self.ending.take()
    }

    /// The runs whose questions are settled by these events without having been continued by `run`.
    pub(crate) fn superseded(&self, session: &SessionAdapter, run: &str) -> Vec<String> {
        let is_open = |id: &String| self.shown.facts.questions.iter().any(|question| question.id == *id);
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
        (self.commit, self.shown)
    }
}

fn upcoming(session: &SessionAdapter, events: Vec<(Event, bool)>, commit: &Commit) -> Vec<Upcoming> {
    let mut rows = commit.messages.iter();
    let with_row = |(event, is_kept): (Event, bool)| (event, if is_kept { rows.next() } else { None });
    let events = events.into_iter().map(with_row).collect();
    session.events.about_to_store(events, session.last_seq)
}

impl CommittedView {
    /// Shows what was stored, and answers with the events as the wire has them.
    pub(crate) fn show(self, session: &mut SessionAdapter, committed: Committed) -> Vec<Arc<Event>> {
        let is_known = |upcoming: &Upcoming| session.events.holds(upcoming.id());
        if committed.repeated && self.upcoming.iter().all(is_known) {
            return self.upcoming.into_iter().map(Upcoming::into_event).collect();
        }
        let state: &mut StateAdapter = &mut session.state;
        state.share(committed.started.map(|started| started.shared).unwrap_or_default());
        for delta in &self.deltas {
            state.apply(delta);
        }
        session.question_runs.retain(|id, _| self.facts.questions.iter().any(|question| question.id == *id));
        if let Some(run) = &self.asked_by {
            for question in &self.facts.questions {
                session.question_runs.entry(question.id.clone()).or_insert_with(|| run.clone());
            }
        }
        session.facts = self.facts;
        session.last_seq = session.last_seq.max(committed.seq);
        session.last_update_time = self.timestamp.unwrap_or(session.last_update_time);
        session.has_title |= self.titled;
        self.upcoming.into_iter().map(|upcoming| session.events.show(upcoming)).collect()
    }
}

/// How the run ends with this event, if it does.
fn ending_of(event: &Event, facts: &PendingWork, effect: RunEffect) -> Option<RunEnding> {
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
            // While a person is being asked, the answers of the step are still to come.
            let is_over = !event.is_from_user()
                && facts.open_calls.is_empty()
                && next_step(Some(event), facts) == Step::Done;
            match (&event.error_code, facts.questions.is_empty()) {
                _ if !is_over => return None,
                (Some(_), _) => RunStatus::Failed,
                (None, false) => RunStatus::Waiting,
                (None, true) => RunStatus::Done,
            }
        }
    };
    Some(RunEnding { status, error: event.error_message.clone() })
}

/// The first words of the user name the session.
fn title(event: &Event) -> Option<String> {
    let said = event.content.as_ref().filter(|_| event.is_from_user()).map(Content::text)?;
    let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(80).collect())
}
