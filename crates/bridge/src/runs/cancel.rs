//! Cancelling: a run of this process is told to end; one that waits for a person is ended here, with its question.

use super::{Cursor, LiveRun, Runs};
use crate::{
    store::{
        entries::PreparedCommit,
        service::{SessionServiceAdapter, service_error, store_key},
        session::SessionAdapter,
    },
    view::budget::Budget,
};
use adk::{
    error::ServiceError,
    event::Event,
    flow::withdraw,
    pending::Question,
    session::{LogEntry, SessionKey},
};
use session::{Commit, Error, RunStatus, TurnChange};
use std::{sync::Arc, time::Duration};

/// What a withdrawn question is answered with.
const REASON: &str = "the run was cancelled";
/// How long a run that was told to end is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// How often a session that changed meanwhile is read again.
const ATTEMPTS: usize = 3;

/// What became of a request to cancel a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is over, now or since before.
    Over,
    /// It was told to end, and something in it does not let go yet.
    Requested,
    /// It is not in this process, which cannot end it.
    Elsewhere,
    /// It waits for a person, and another run of its session goes on.
    Busy,
    NotFound,
}

impl Runs {
    /// Ends a run. The model's stream and the tools stop; open calls are settled by the next turn. What a waiting run has
    /// asked is withdrawn.
    pub async fn cancel(&self, key: &SessionKey, id: &str) -> Result<CancelOutcome, ServiceError> {
        for _ in 0..ATTEMPTS {
            if let Some(live) = self.live(key, id).filter(|live| live.end().is_none()) {
                live.cancel.cancel();
                if tokio::time::timeout(ENDS_WITHIN, ended(&live)).await.is_err() {
                    return Ok(CancelOutcome::Requested);
                }
            }
            let run = self.store.run(&store_key(key), id).await.map_err(|error| service_error(error, key))?;
            let Some(run) = run else { return Ok(CancelOutcome::NotFound) };
            match run.status {
                // It may have asked just now, before it was told to end.
                RunStatus::Waiting => {}
                RunStatus::Queued | RunStatus::Running => return Ok(CancelOutcome::Elsewhere),
                RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => {
                    return Ok(CancelOutcome::Over);
                }
            }
            match self.withdraw_questions(key, id).await {
                Ok(true) => return Ok(CancelOutcome::Over),
                Ok(false) => return Ok(CancelOutcome::NotFound),
                Err(Error::Busy(_)) => return Ok(CancelOutcome::Busy),
                // It was answered, or something else happened to the session: look again.
                Err(Error::Conflict { .. } | Error::RunMoved { .. }) => {}
                Err(error) => return Err(service_error(error, key)),
            }
        }
        Err(ServiceError::Stale(key.clone()))
    }

    /// Settles what a waiting run has asked and ends it, in one commit. `false` if the session is gone.
    async fn withdraw_questions(&self, key: &SessionKey, id: &str) -> session::Result<bool> {
        let sessions = SessionServiceAdapter::new(Arc::clone(&self.store), "", Budget::default());
        let failed = |error: ServiceError| Error::Backend(error.into());
        let Some(session) = sessions.read(key).await.map_err(failed)? else { return Ok(false) };
        let entries = withdrawals(&session, id).into_iter().map(LogEntry::continues).collect();
        let (commit, _) = PreparedCommit::new(&session, entries, Some(id)).map_err(failed)?.into_commit();
        let turn = TurnChange::Cancel { run: id.to_owned(), error: Some(REASON.to_owned()) };
        let commit = Commit { turn, expected_seq: Some(session.last_seq), ..commit };
        self.store.commit(&store_key(key), commit).await?;
        // What is in memory ends with the question; the log has its answer.
        if let Some(live) = self.live(key, id) {
            live.continue_in_log();
        }
        Ok(true)
    }

    /// Ends all runs of a session, and waits until they are over.
    pub async fn cancel_all(&self, key: &SessionKey) {
        let running = self.registry.running_in(key);
        for live in &running {
            live.cancel.cancel();
        }
        for live in running {
            ended(&live).await;
        }
    }
}

async fn ended(live: &LiveRun) {
    let mut place = Cursor::default();
    while let Ok(entry) = live.after(place).await {
        place = entry.place;
    }
}

/// The events that settle what a run has asked, in the names of the agents that asked.
fn withdrawals(session: &SessionAdapter, run: &str) -> Vec<Event> {
    let is_its_own =
        |question: &&Question| session.question_runs.get(&question.id).is_some_and(|id| id == run);
    let mut events = withdraw(session.facts.questions.iter().filter(is_its_own), REASON);
    for event in &mut events {
        let by_author = |known: &&Arc<Event>| known.author == event.author;
        if let Some(known) = session.events.all().iter().rev().find(by_author) {
            event.node_info.path.clone_from(&known.node_info.path);
        }
    }
    events
}
