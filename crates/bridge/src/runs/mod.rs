//! Runs: turns on their own tasks. A run continues when its reader disconnects. A reader that reconnects gets the
//! events that it missed, from memory while the run is there and from the log afterwards.

mod cancel;
mod live;
mod reader;
mod recovery;
mod registry;

pub use cancel::CancelOutcome;
pub use live::{Cursor, RunEntry, RunOutcome};
pub use reader::{Reader, ReaderItem};
pub use recovery::{Recovery, RecoverySource};
pub use registry::{RunCounts, RunPermit};
pub use session::RunStatus;

use crate::{
    agent::{Agent, requested_id},
    store::{service::service_error, session_handle::SessionHandle},
    turns::{QueuedRequest, Refused, RunName, Turns},
};
use adk::{
    error::{RunError, ServiceError, StoreError, StoreFault},
    runner::RunRequest,
    session::SessionKey,
};
use live::LiveRun;
use registry::{RunKey, RunRegistry};
use session::{IdempotencyKey, Store};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};
use tokio_util::task::TaskTracker;

#[derive(Clone)]
pub struct Runs {
    store: Arc<dyn Store>,
    turns: Turns,
    registry: RunRegistry,
    tasks: TaskTracker,
    /// Recovered runs without an agent, by app.
    stalled: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// Options of [`Runs::start`].
#[derive(Debug, Default)]
pub struct StartOptions {
    /// Idempotency key: a later request of the user with the same key becomes this run.
    pub idempotency_key: Option<String>,
    /// Released when the run ends.
    pub permit: Option<RunPermit>,
}

/// Why a message was not accepted. Nothing is stored.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The idempotency key was used for another session, message or options.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The session has an invocation with the id that the request chose.
    #[error(
        "the session has an invocation {id} already; send the message without an invocation id, or with a new one"
    )]
    InvocationExists { id: String },
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<ServiceError> for StartError {
    fn from(error: ServiceError) -> Self {
        Self::Run(error.into())
    }
}

/// The status of a run for clients.
#[derive(Clone, Debug)]
pub struct RunView {
    pub id: String,
    pub status: RunStatus,
    /// Queue position: how many messages are before it, if it is queued.
    pub position: Option<usize>,
    pub error: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
}

impl RunView {
    /// The view of a run that was accepted just now.
    pub fn accepted(id: &str) -> Self {
        let now = adk::event::now();
        let status = RunStatus::Running;
        Self { id: id.to_owned(), status, position: None, error: None, created_at: now, updated_at: now }
    }

    fn from_run(run: session::RunRecord) -> Self {
        let session::RunRecord { id, status, error, created_at, updated_at, ahead, .. } = run;
        let position = ahead.and_then(|ahead| usize::try_from(ahead).ok());
        Self { id, status, position, error, created_at, updated_at }
    }
}

impl Runs {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let turns = Turns::new(Arc::clone(&store));
        let (registry, tasks) = (RunRegistry::default(), TaskTracker::new());
        Self { store, turns, registry, tasks, stalled: Arc::default() }
    }

    /// The turns of this process, for the agents that it runs.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Acquires a permit for one run of a user; `None` if `max` permits are in use.
    pub fn acquire_permit(&self, user: &str, max: usize) -> Option<RunPermit> {
        self.registry.acquire_permit(user, max)
    }

    /// Starts a run, which continues independently of its readers. Returns when the message is stored. If the user
    /// has used the idempotency key for the same request, the reader is that of the earlier run.
    pub async fn start(
        &self,
        agent: &Agent,
        request: RunRequest,
        options: StartOptions,
    ) -> Result<Reader, StartError> {
        let StartOptions { idempotency_key, permit } = options;
        let session = request.key.clone();
        let (name, from) = self.identify(agent, &request).await?;
        let id = name.id.clone();
        let fingerprint = || QueuedRequest::fingerprint(&request);
        let idempotency_key = idempotency_key.map(|key| IdempotencyKey { key, fingerprint: fingerprint() });
        let name = RunName { idempotency_key: idempotency_key.clone(), ..name };
        let arrival = agent.arrive(&request, name)?;
        let key = RunKey { session: session.clone(), id: id.clone() };
        let live = Arc::new(LiveRun::new(request.cancel.clone(), from));
        let accepted = arrival.turn.signal_acceptance({
            let (registry, key, live) = (self.registry.clone(), key.clone(), Arc::clone(&live));
            move || registry.add(&key, &live)
        });
        let turn = Arc::clone(&arrival.turn);
        let reader = Reader::live(self.clone(), key.clone(), Arc::clone(&live), from);
        let (runs, agent) = (self.clone(), agent.clone());
        let task = self.tasks.spawn(async move {
            let turn = Arc::clone(&arrival.turn);
            let result = agent.run_arrived(arrival, request, &|event| live.push(event)).await;
            if !turn.is_accepted() {
                return result;
            }
            // Released first: a reader that sees the end can start the next run.
            drop(permit);
            live.finish(&result, turn.continues_in_log());
            runs.registry.retire(key, &live);
            Ok(())
        });
        if accepted.await.is_ok() {
            return Ok(reader);
        }
        match turn.refusal() {
            Some(Refused::KeyReused) => Err(StartError::KeyReused),
            Some(Refused::RunExists) => Err(StartError::InvocationExists { id }),
            Some(Refused::Duplicate(id)) => {
                let reader = self.reader(&session, &id, Cursor::default()).await?;
                Ok(reader.ok_or(ServiceError::NotFound(session))?)
            }
            Some(Refused::Busy | Refused::Stale) | None => {
                let lost = |lost| ServiceError::from(StoreError::new(StoreFault::Other, lost));
                let result = task.await.map_err(lost)?;
                let error = result.err().unwrap_or_else(|| ServiceError::Stale(session.clone()).into());
                self.find_earlier_run(session, idempotency_key, error).await
            }
        }
    }

    /// An answer to a call that is no longer open, or a message whose resource is no longer available, may repeat an
    /// accepted request: then it becomes the run of that request.
    async fn find_earlier_run(
        &self,
        session: SessionKey,
        idempotency_key: Option<IdempotencyKey>,
        error: RunError,
    ) -> Result<Reader, StartError> {
        let may_repeat = matches!(error, RunError::UnknownCall { .. } | RunError::UnresolvedReference { .. });
        let Some(request) = idempotency_key.filter(|_| may_repeat) else {
            return Err(error.into());
        };
        match self.store.run_of_request(&session, &request).await {
            Ok(Some(run)) => Ok(Reader::stored(self.clone(), session, run, Cursor::default())),
            Ok(None) => Err(error.into()),
            Err(session::Error::KeyReused) => Err(StartError::KeyReused),
            Err(error) => Err(service_error(error, &session).into()),
        }
    }

    /// The name of the request's run, and the cursor after its stored events: an answer continues the run that asked.
    async fn identify(&self, agent: &Agent, request: &RunRequest) -> Result<(RunName, Cursor), StartError> {
        let Some(id) = agent.answered_run(request).await? else {
            let requested = requested_id(request);
            if let Some(id) = requested {
                self.check_unused(agent, &request.key, id).await?;
            }
            return Ok((RunName::fresh(requested), Cursor::default()));
        };
        let from = match self.stored(&request.key).run(&id).await? {
            Some(run) => Reader::stored_end(self, &request.key, &run).await?,
            None => Cursor::default(),
        };
        Ok((RunName::existing(id), from))
    }

    /// Refuses the id of an invocation that is in the log and is no run: the session was imported. The commit that stores the
    /// message refuses the id of a run, unless it is the run of the same request.
    async fn check_unused(&self, agent: &Agent, key: &SessionKey, id: &str) -> Result<(), StartError> {
        // In this order: the first event of a run is stored together with the run.
        if agent.has_invocation(key, id).await? && self.stored(key).run(id).await?.is_none() {
            return Err(StartError::InvocationExists { id: id.to_owned() });
        }
        Ok(())
    }

    fn stored<'a>(&'a self, key: &'a SessionKey) -> SessionHandle<'a> {
        SessionHandle::new(&self.store, key)
    }

    fn live(&self, key: &SessionKey, id: &str) -> Option<Arc<LiveRun>> {
        self.registry.find(key, id)
    }

    /// A reader of a run's events after a cursor: the stored events, then the new ones as they happen.
    pub async fn reader(
        &self,
        key: &SessionKey,
        id: &str,
        after: Cursor,
    ) -> Result<Option<Reader>, ServiceError> {
        if let Some(live) = self.live(key, id).filter(|live| live.covers(after)) {
            let key = RunKey { session: key.clone(), id: id.to_owned() };
            return Ok(Some(Reader::live(self.clone(), key, live, after)));
        }
        let run = self.stored(key).run(id).await?;
        Ok(run.map(|run| Reader::stored(self.clone(), key.clone(), run, after)))
    }

    pub async fn view(&self, key: &SessionKey, id: &str) -> Result<Option<RunView>, ServiceError> {
        Ok(self.stored(key).run(id).await?.map(RunView::from_run))
    }

    /// The newest runs of a session.
    pub async fn list(&self, key: &SessionKey, limit: usize) -> Result<Vec<RunView>, ServiceError> {
        let runs = self.stored(key).runs(limit).await?;
        Ok(runs.into_iter().map(RunView::from_run).collect())
    }

    /// Number of runs in progress.
    pub fn running(&self) -> usize {
        self.registry.running()
    }

    /// Whether a session has a run in progress in this process.
    pub fn is_running(&self, key: &SessionKey) -> bool {
        !self.registry.running_in(key).is_empty()
    }

    /// Counters since the process started.
    pub fn counts(&self) -> RunCounts {
        self.registry.counts()
    }

    /// Waits until the text that runs have streamed so far is saved as drafts. Called before the process exits with
    /// runs in progress.
    pub async fn flush_drafts(&self) {
        self.turns.draft_flush().flush().await;
    }

    /// Ends the lease of this process before it exits with runs in progress, so that other servers continue them at once. A failure
    /// only delays that.
    pub async fn release(&self) {
        let _ = self.store.release().await;
    }

    /// Waits until no run is in progress.
    pub async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("running", &self.running()).finish_non_exhaustive()
    }
}
