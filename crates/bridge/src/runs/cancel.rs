//! Cancellation: a run of this process gets the cancel signal; the owner of a run in another process is asked through the store,
//! if it can; a run that waits for a person is ended here, together with its questions.

use super::{Cursor, LiveRun, Runs, live::LiveItem};
use crate::{
    store::{
        entries::PreparedCommit,
        service::{SessionServiceAdapter, service_error},
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
use tokio::time::Instant;

/// The error of a withdrawn question.
const REASON: &str = "the run was cancelled";
/// How long `cancel` waits for a cancelled run to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it waits for the owner in another process, which learns of the request by its next heartbeat.
const OWNER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks whether that run has ended.
const POLL: Duration = Duration::from_millis(100);
/// Attempts if the session changes concurrently.
const ATTEMPTS: usize = 3;

/// The outcome of a cancel request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The run has ended, by this request or earlier.
    Over,
    /// The run was cancelled but has not ended within the timeout.
    Requested,
    /// The run belongs to another process, which alone can end it and cannot be asked.
    Elsewhere,
    /// The run waits for a person, and another run of its session is in progress.
    Busy,
    NotFound,
}

impl Runs {
    /// Cancels a run. The model stream and the tools stop; the next turn settles open calls. The questions of a
    /// waiting run are withdrawn.
    pub async fn cancel(&self, key: &SessionKey, id: &str) -> Result<CancelOutcome, ServiceError> {
        for _ in 0..ATTEMPTS {
            if let Some(live) = self.live(key, id).filter(|live| live.end().is_none()) {
                live.cancel.cancel();
                if tokio::time::timeout(CANCEL_TIMEOUT, wait_for_end(&live)).await.is_err() {
                    return Ok(CancelOutcome::Requested);
                }
            }
            let Some(run) = self.stored(key).run(id).await? else { return Ok(CancelOutcome::NotFound) };
            match run.status {
                // It may have asked just before the cancel signal.
                RunStatus::Waiting => {}
                RunStatus::Queued | RunStatus::Running => match self.request_cancel(key, id).await? {
                    Some(outcome) => return Ok(outcome),
                    None => continue,
                },
                RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => {
                    return Ok(CancelOutcome::Over);
                }
            }
            match self.withdraw_questions(key, id).await {
                Ok(true) => return Ok(CancelOutcome::Over),
                Ok(false) => return Ok(CancelOutcome::NotFound),
                Err(Error::Busy(_)) => return Ok(CancelOutcome::Busy),
                // The session has changed, for example by an answer: retry.
                Err(Error::Conflict { .. } | Error::RunMoved { .. }) => {}
                Err(error) => return Err(service_error(error, key)),
            }
        }
        Err(ServiceError::Stale(key.clone()))
    }

    /// Asks the owner of an open run to cancel it, and waits for its end. `None` if the run has changed its status otherwise.
    async fn request_cancel(
        &self,
        key: &SessionKey,
        id: &str,
    ) -> Result<Option<CancelOutcome>, ServiceError> {
        let is_requested = self.store.request_cancel(key, id).await;
        let is_requested = is_requested.map_err(|error| service_error(error, key))?;
        let began = Instant::now();
        loop {
            let run = self.stored(key).run(id).await?;
            match run.map(|run| run.status) {
                Some(status) if !status.is_owned() => return Ok(None),
                None => return Ok(Some(CancelOutcome::NotFound)),
                Some(_) if !is_requested => return Ok(Some(CancelOutcome::Elsewhere)),
                Some(_) if began.elapsed() >= OWNER_TIMEOUT => return Ok(Some(CancelOutcome::Requested)),
                Some(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Settles the questions of a waiting run and ends it, in one commit. `false` if the session does not exist.
    async fn withdraw_questions(&self, key: &SessionKey, id: &str) -> session::Result<bool> {
        let sessions = SessionServiceAdapter::new(Arc::clone(&self.store), "", Budget::default());
        let failed = |error: ServiceError| Error::Backend(error.into());
        let Some(session) = sessions.read(key).await.map_err(failed)? else { return Ok(false) };
        let entries = withdrawals(&session, id).into_iter().map(LogEntry::continues).collect();
        let (commit, _) = PreparedCommit::new(&session, entries, Some(id)).map_err(failed)?.into_commit();
        let turn = TurnChange::Cancel { run: id.to_owned(), error: Some(REASON.to_owned()) };
        let commit = Commit { turn, expected_seq: Some(session.last_seq), ..commit };
        self.store.commit(key, commit).await?;
        // The buffer in memory ends with the question; readers find the withdrawal in the log.
        if let Some(live) = self.live(key, id) {
            live.continue_in_log();
        }
        Ok(true)
    }

    /// Cancels all runs of a session and waits until they are over.
    pub async fn cancel_all(&self, key: &SessionKey) {
        let running = self.registry.running_in(key);
        for live in &running {
            live.cancel.cancel();
        }
        for live in running {
            wait_for_end(&live).await;
        }
    }
}

async fn wait_for_end(live: &LiveRun) {
    let mut cursor = Cursor::default();
    while let LiveItem::Entry(entry) = live.next_after(cursor).await {
        cursor = entry.cursor;
    }
}

/// The events that settle the questions of a run, in the name of the agents that asked.
fn withdrawals(session: &SessionAdapter, run: &str) -> Vec<Event> {
    let is_its_own =
        |question: &&Question| session.question_runs.get(&question.id).is_some_and(|id| id == run);
    let mut events = withdraw(session.pending.questions.iter().filter(is_its_own), REASON);
    for event in &mut events {
        let by_author = |known: &&Arc<Event>| known.author == event.author;
        if let Some(known) = session.events.all().iter().rev().find(by_author) {
            event.node_info.path.clone_from(&known.node_info.path);
        }
    }
    events
}
