//! Runs: turns on tasks of their own. A reader that leaves ends nothing, and one that comes back gets what it missed, from
//! memory while the run is there and from the log afterwards.

mod live;
mod reader;
mod shelf;

pub use live::{End, Entry, Place};
pub use reader::Reader;
pub use session::RunStatus;
pub use shelf::{Seat, Tally};

use crate::{
    agent::Agent,
    owner,
    queue::{self, PATIENCE, RunName},
    service::{service_error, store_key},
};
use adk::{error::ServiceError, runner::RunRequest, session::SessionKey};
use live::Live;
use session::{Append, NewRun, RunUpdate, Store};
use shelf::{RunKey, Shelf};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A commit takes about as long as the first; a queue that is full may take longer.
const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(32);

#[derive(Clone)]
pub struct Runs {
    store: Arc<dyn Store>,
    shelf: Shelf,
    tasks: TaskTracker,
}

/// What else is said of a run when it begins.
#[derive(Debug, Default)]
pub struct Terms {
    /// A later run of the session with the same key is this one.
    pub idempotency_key: Option<String>,
    /// Given back when the run is over.
    pub seat: Option<Seat>,
}

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

    /// Whether its message is neither in the log nor in the queue, whatever else is written down of it.
    fn is_on_its_way(&self) -> bool {
        self.status == RunStatus::Queued && self.position.is_none()
    }
}

impl Runs {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, shelf: Shelf::default(), tasks: TaskTracker::new() }
    }

    /// A place for one more run of a user; none if `most` of them are taken.
    pub fn seat(&self, user: &str, most: usize) -> Option<Seat> {
        self.shelf.seat(user, most)
    }

    /// Begins a run; it goes on whoever listens. With a key that the session has seen it is that earlier run.
    pub async fn start(
        &self,
        agent: &Agent,
        request: RunRequest,
        terms: Terms,
    ) -> Result<Reader, ServiceError> {
        let Terms { idempotency_key, seat } = terms;
        let session = request.key.clone();
        let mut place = agent.place(&request, RunName { idempotency_key, ..RunName::fresh() });
        if let Some(new) = place.registration()
            && let Some(id) = self.earlier(&session, new).await?
        {
            // Others may ask for it at the same time: one by one.
            place.go_in().await;
            if !self.is_lost(&session, &id).await? {
                let reader = self.reader(&session, &id, Place::default()).await?;
                return reader.ok_or(ServiceError::NotFound(session));
            }
            place = place.of_run(id);
        }
        Ok(self.spawn(agent, place, request, (Place::default(), seat)))
    }

    /// The run that an idempotency key stands for, if it is not the one that is to begin.
    async fn earlier(&self, key: &SessionKey, new: NewRun) -> Result<Option<String>, ServiceError> {
        let own = new.id.clone();
        let run = self.store.start(new).await.map_err(|error| service_error(error, key))?;
        Ok(Some(run.id).filter(|id| *id != own))
    }

    /// Whether a run was registered by somebody who is gone, and whose message is neither in the log nor in the queue.
    /// Somebody who may be alive is waited for a while.
    async fn is_lost(&self, key: &SessionKey, id: &str) -> Result<bool, ServiceError> {
        let failed = |error| service_error(error, key);
        let stored = store_key(key);
        let (since, mut pause) = (Instant::now(), SOON);
        while self.live(key, id).is_none() {
            let waiting = self.store.waiting(&stored, usize::MAX).await.map_err(failed)?;
            let run = self.store.run(&stored, id).await.map_err(failed)?;
            let queued = run.filter(|run| run.status == RunStatus::Queued);
            let Some(run) = queued.filter(|run| waiting.iter().all(|ticket| ticket.id != run.id)) else {
                return Ok(false);
            };
            if owner::is_dead(&run.owner) || since.elapsed() >= PATIENCE {
                return Ok(true);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATER);
        }
        Ok(false)
    }

    fn spawn(
        &self,
        agent: &Agent,
        place: queue::Place,
        request: RunRequest,
        (from, seat): (Place, Option<Seat>),
    ) -> Reader {
        let key = RunKey { session: request.key.clone(), id: place.name().id.clone() };
        let live = Arc::new(Live::new(request.cancel.clone(), from));
        self.shelf.add(&key, &live);
        let (runs, agent) = (self.clone(), agent.clone());
        let reader = Reader::live(key.id.clone(), Arc::clone(&live), from);
        self.tasks.spawn(async move {
            let registered = place.name().idempotency_key.is_some();
            let result = agent.run_from(place, request, &|event| live.push(event)).await;
            if registered && result.is_err() {
                runs.close(&key, &result).await;
            }
            // Whoever hears of the end finds the place free.
            drop(seat);
            live.finish(&result);
            runs.shelf.put_away(key, &live);
        });
        reader
    }

    /// A run that was registered and failed before anything of it was stored is over all the same.
    async fn close(&self, RunKey { session, id }: &RunKey, result: &Result<(), adk::error::RunError>) {
        let stored = store_key(session);
        let Ok(Some(run)) = self.store.run(&stored, id).await else { return };
        if run.status == RunStatus::Queued {
            let error = result.as_ref().err().map(ToString::to_string);
            let status = match End::of(result, false) {
                End::Cancelled => RunStatus::Cancelled,
                End::Done | End::NotFound | End::Unasked { .. } | End::Failed { .. } => RunStatus::Failed,
            };
            let run = Some(RunUpdate { id: id.clone(), status, error });
            let _ = self.store.append(&stored, Append { run, ..Append::default() }).await;
        }
    }

    fn live(&self, key: &SessionKey, id: &str) -> Option<Arc<Live>> {
        self.shelf.find(key, id)
    }

    /// The events of a run behind a place, as far as there are any, and then on.
    pub async fn reader(
        &self,
        key: &SessionKey,
        id: &str,
        after: Place,
    ) -> Result<Option<Reader>, ServiceError> {
        if let Some(live) = self.live(key, id).filter(|live| live.reaches(after)) {
            return Ok(Some(Reader::live(id.to_owned(), live, after)));
        }
        let stored = store_key(key);
        let run = self.store.run(&stored, id).await.map_err(|error| service_error(error, key))?;
        Ok(run.map(|run| Reader::stored(self.clone(), key.clone(), run, after)))
    }

    /// As [`view`](Self::view), once its message is in the log or in the queue: from then on nothing loses it.
    pub async fn stored(&self, key: &SessionKey, id: &str) -> Result<Option<RunView>, ServiceError> {
        let mut pause = SOON;
        loop {
            let is_live = self.live(key, id).is_some_and(|live| live.end().is_none());
            let view = self.view(key, id).await?;
            if !(is_live && view.as_ref().is_some_and(RunView::is_on_its_way)) {
                return Ok(view);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATER);
        }
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
                Some(End::NotFound | End::Unasked { .. } | End::Failed { .. }) => RunStatus::Failed,
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
        let running = self.shelf.running_in(key);
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
        self.shelf.running()
    }

    /// Whether a session has a run here that is not over.
    pub fn is_running(&self, key: &SessionKey) -> bool {
        !self.shelf.running_in(key).is_empty()
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.shelf.tally()
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
            let place = agent.place(&request, RunName { id: run.id, idempotency_key: None });
            let mut reader = self.spawn(agent, place, request, (from, None));
            while reader.next().await?.is_ok() {}
        }
        Box::pin(agent.answer_waiting(key)).await
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("running", &self.running()).finish_non_exhaustive()
    }
}
