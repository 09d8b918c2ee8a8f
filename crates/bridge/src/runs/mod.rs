//! Runs: turns on tasks of their own. A reader that leaves ends nothing, and one that comes back gets what it missed, from
//! memory while the run is there and from the log afterwards.

mod live;
mod reader;

pub use live::{End, Entry, Place};
pub use reader::Reader;
pub use session::RunStatus;

use crate::{
    agent::Agent,
    owner,
    queue::RunName,
    service::{service_error, store_key},
};
use adk::{error::ServiceError, runner::RunRequest, session::SessionKey};
use live::Live;
use session::{Append, NewRun, RunUpdate, Store};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs that are over stay in memory for readers that come back: so many of them, and so many bytes.
const FINISHED: usize = 256;
const FINISHED_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub struct Runs {
    store: Arc<dyn Store>,
    shelf: Arc<Mutex<Shelf>>,
    tasks: TaskTracker,
}

/// What has happened since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Of runs that are over, partial ones too.
    pub events: u64,
}

impl Tally {
    fn count(&mut self, end: Option<&End>, events: u64) {
        self.events += events;
        match end {
            Some(End::Done) => self.done += 1,
            Some(End::Cancelled) => self.cancelled += 1,
            Some(End::NotFound | End::Failed { .. }) | None => self.failed += 1,
        }
    }
}

#[derive(Default)]
struct Shelf {
    live: HashMap<RunKey, Arc<Live>>,
    /// Those that are over, oldest first, and about how many bytes they keep.
    finished: VecDeque<(RunKey, usize)>,
    bytes: usize,
    tally: Tally,
}

type RunKey = (SessionKey, String);

/// A run as its readers are told of it.
#[derive(Clone, Debug)]
pub struct RunView {
    pub id: String,
    pub status: RunStatus,
    /// How many messages are before it, if it waits.
    pub position: Option<usize>,
    pub error: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
}

impl RunView {
    fn of(run: session::Run) -> Self {
        let session::Run { id, status, error, created_at, updated_at, .. } = run;
        Self { id, status, position: None, error, created_at, updated_at }
    }
}

impl Runs {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, shelf: Arc::default(), tasks: TaskTracker::new() }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run; it goes on whoever listens. With a key that the session has seen it is that earlier run.
    pub async fn start(
        &self,
        agent: &Agent,
        request: RunRequest,
        idempotency_key: Option<String>,
    ) -> Result<Reader, ServiceError> {
        let name = RunName { idempotency_key, ..RunName::fresh() };
        let session = request.key.clone();
        let Some(id) = self.registered(&session, &name).await? else {
            return Ok(self.spawn(agent, name, request, Place::default()));
        };
        if id == name.id || self.is_lost(&session, &id).await? {
            return Ok(self.spawn(agent, RunName { id, ..name }, request, Place::default()));
        }
        self.reader(&session, &id, Place::default()).await?.ok_or(ServiceError::NotFound(session))
    }

    /// The run of an idempotency key: this one, or the one that was first.
    async fn registered(&self, key: &SessionKey, name: &RunName) -> Result<Option<String>, ServiceError> {
        if name.idempotency_key.is_none() {
            return Ok(None);
        }
        let new = NewRun {
            id: name.id.clone(),
            key: store_key(key),
            status: RunStatus::Queued,
            idempotency_key: name.idempotency_key.clone(),
            owner: String::new(),
        };
        let run = self.store.start(new).await.map_err(|error| service_error(error, key))?;
        Ok(Some(run.id))
    }

    /// Whether a run was registered by a process that died before its message was in the log or in the queue.
    async fn is_lost(&self, key: &SessionKey, id: &str) -> Result<bool, ServiceError> {
        if self.live(key, id).is_some() {
            return Ok(false);
        }
        let failed = |error| service_error(error, key);
        let stored = store_key(key);
        let waiting = self.store.waiting(&stored, usize::MAX).await.map_err(failed)?;
        let run = self.store.run(&stored, id).await.map_err(failed)?;
        let is_queued = run.is_some_and(|run| run.status == RunStatus::Queued);
        Ok(is_queued && waiting.iter().all(|ticket| ticket.id != id))
    }

    fn spawn(&self, agent: &Agent, name: RunName, request: RunRequest, from: Place) -> Reader {
        let key = (request.key.clone(), name.id.clone());
        let cancel = request.cancel.clone();
        let live = Arc::new(Live::new(cancel, from));
        self.shelf().live.insert(key.clone(), Arc::clone(&live));
        let (runs, agent) = (self.clone(), agent.clone());
        let reader = Reader::live(key.1.clone(), Arc::clone(&live), from);
        self.tasks.spawn(async move {
            let registered = name.idempotency_key.is_some();
            let result = agent.run_as(name, request, &|event| live.push(event)).await;
            if registered && result.is_err() {
                runs.close(&key, &result).await;
            }
            live.finish(&result);
            runs.put_away(key, &live);
        });
        reader
    }

    /// A run that was registered and failed before anything of it was stored is over all the same.
    async fn close(&self, (session, id): &RunKey, result: &Result<(), adk::error::RunError>) {
        let stored = store_key(session);
        let Ok(Some(run)) = self.store.run(&stored, id).await else { return };
        if run.status == RunStatus::Queued {
            let error = result.as_ref().err().map(ToString::to_string);
            let status = match End::of(result, false) {
                End::Cancelled => RunStatus::Cancelled,
                End::Done | End::NotFound | End::Failed { .. } => RunStatus::Failed,
            };
            let run = Some(RunUpdate { id: id.clone(), status, error });
            let _ = self.store.append(&stored, Append { run, ..Append::default() }).await;
        }
    }

    fn put_away(&self, key: RunKey, live: &Live) {
        let (size, events, end) = (live.size(), live.len(), live.end());
        let mut shelf = self.shelf();
        shelf.tally.count(end.as_ref(), events);
        shelf.bytes += size;
        shelf.finished.push_back((key, size));
        while shelf.finished.len() > FINISHED || shelf.bytes > FINISHED_BYTES {
            let Some((oldest, size)) = shelf.finished.pop_front() else { break };
            shelf.bytes -= size;
            shelf.live.remove(&oldest);
        }
    }

    fn live(&self, key: &SessionKey, id: &str) -> Option<Arc<Live>> {
        self.shelf().live.get(&(key.clone(), id.to_owned())).cloned()
    }

    /// The events of a run behind a place, as far as there are any, and then on.
    pub async fn reader(
        &self,
        key: &SessionKey,
        id: &str,
        after: Place,
    ) -> Result<Option<Reader>, ServiceError> {
        if let Some(live) = self.live(key, id) {
            return Ok(Some(Reader::live(id.to_owned(), live, after)));
        }
        let stored = store_key(key);
        let run = self.store.run(&stored, id).await.map_err(|error| service_error(error, key))?;
        Ok(run.map(|run| Reader::stored(self.clone(), key.clone(), run, after)))
    }

    pub async fn view(&self, key: &SessionKey, id: &str) -> Result<Option<RunView>, ServiceError> {
        let failed = |error| service_error(error, key);
        let stored = store_key(key);
        let Some(run) = self.store.run(&stored, id).await.map_err(failed)? else {
            // Its first event is on its way.
            let status = self.live(key, id).map(|live| match live.end() {
                None => RunStatus::Queued,
                Some(End::Done) => RunStatus::Done,
                Some(End::Cancelled) => RunStatus::Cancelled,
                Some(End::NotFound | End::Failed { .. }) => RunStatus::Failed,
            });
            let now = adk::event::now();
            return Ok(status.map(|status| RunView {
                id: id.to_owned(),
                status,
                position: None,
                error: None,
                created_at: now,
                updated_at: now,
            }));
        };
        let position = match run.status {
            RunStatus::Queued => {
                let waiting = self.store.waiting(&stored, usize::MAX).await.map_err(failed)?;
                waiting.iter().position(|ticket| ticket.id == id)
            }
            _ => None,
        };
        Ok(Some(RunView { position, ..RunView::of(run) }))
    }

    /// The newest runs of a session.
    pub async fn list(&self, key: &SessionKey, limit: usize) -> Result<Vec<RunView>, ServiceError> {
        let runs =
            self.store.runs(&store_key(key), limit).await.map_err(|error| service_error(error, key))?;
        Ok(runs.into_iter().map(RunView::of).collect())
    }

    /// Ends a run of this process: the model's stream and the tools stop, open calls are settled by the next turn. `false`
    /// if it does not run here.
    pub fn cancel(&self, key: &SessionKey, id: &str) -> bool {
        let live = self.live(key, id).filter(|live| live.end().is_none());
        live.inspect(|live| live.cancel.cancel()).is_some()
    }

    /// Ends all runs of a session, and waits until they are over.
    pub async fn cancel_all(&self, key: &SessionKey) {
        let of_session = |(run, live): (&RunKey, &Arc<Live>)| (run.0 == *key).then(|| Arc::clone(live));
        let running: Vec<Arc<Live>> = self.shelf().live.iter().filter_map(of_session).collect();
        for live in &running {
            live.cancel.cancel();
        }
        for live in running {
            let mut place = Place::default();
            while let Ok(entry) = live.after(place).await {
                place = entry.place;
            }
        }
    }

    /// How many runs are not over.
    pub fn running(&self) -> usize {
        let shelf = self.shelf();
        shelf.live.len().saturating_sub(shelf.finished.len())
    }

    /// How many runs of a user are not over.
    pub fn running_of(&self, user: &str) -> usize {
        let is_theirs = |(run, live): &(&RunKey, &Arc<Live>)| run.0.user_id == user && live.end().is_none();
        self.shelf().live.iter().filter(is_theirs).count()
    }

    /// Whether a session has a run here that is not over.
    pub fn is_running(&self, key: &SessionKey) -> bool {
        self.shelf().live.iter().any(|(run, live)| run.0 == *key && live.end().is_none())
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.shelf().tally
    }

    /// Waits until nothing runs any more.
    pub async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// Sessions that are in a run, or have messages waiting; those of dead processes are to be taken up.
    pub async fn left(&self) -> Result<Vec<SessionKey>, ServiceError> {
        let left = self.store.left().await.map_err(|error| ServiceError::Store(Box::new(error)))?;
        Ok(left.into_iter().map(|key| SessionKey::new(key.app, key.user, key.session)).collect())
    }

    /// Goes on with what a dead process left in this app: the run that it was in, and messages that nobody waits for.
    pub async fn take_up(&self, agent: &Agent, key: &SessionKey) -> Result<(), ServiceError> {
        let failed = |error| service_error(error, key);
        let stored = store_key(key);
        let newest = self.store.runs(&stored, 8).await.map_err(failed)?;
        let cut =
            newest.into_iter().find(|run| run.status == RunStatus::Running && owner::is_dead(&run.owner));
        if let Some(run) = cut {
            let from = Reader::end_of(self, key, &run).await?;
            let request = RunRequest {
                input: adk::runner::Input::Resume,
                cancel: CancellationToken::new(),
                ..RunRequest::message(key.clone(), adk::content::Content::default())
            };
            let mut reader = self.spawn(agent, RunName { id: run.id, idempotency_key: None }, request, from);
            while reader.next().await?.is_ok() {}
        }
        agent.answer_waiting(key).await
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("running", &self.running()).finish_non_exhaustive()
    }
}
