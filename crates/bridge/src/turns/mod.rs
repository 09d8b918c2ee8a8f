//! Turns: one run at a time in each session, in the order of acceptance, across tasks and processes.
//!
//! | module | contents |
//! |---|---|
//! | `arrival` | a fair lock for each session: messages that arrive at one process are accepted in the order of arrival |
//! | `abandon` | ends the run of a turn that was dropped |
//! | `handle` | the state of one turn; every commit of the turn passes through it |
//! | `phase` | the phases of a turn, from the first attempt to start to its end |
//! | `backoff` | exponential backoff for store faults |
//! | `waiting` | waits until a queued run is first in the queue of its session |
//! | `heartbeat` | the heartbeat of this process |
//! | `watch` | detects gone owners: dead, or without a heartbeat |
//! | `request` | a queued message, with everything that another process needs to run it |
//!
//! The states of a run and of its lease are those of [`session::lifecycle`]; this module decides nothing about them.

mod abandon;
mod arrival;
mod backoff;
mod handle;
mod heartbeat;
pub(crate) mod parked;
mod phase;
mod request;
mod waiting;
mod watch;

pub(crate) use arrival::ArrivalGuard;
pub(crate) use backoff::Backoff;
pub(crate) use handle::{StartTerms, TurnHandle};
pub(crate) use phase::Refused;
pub(crate) use request::{QueuedRequest, RunOptions};
pub(crate) use waiting::QueuePosition;

use adk::{draft::DraftFlush, event::mint_invocation_id, session::SessionKey};
use arrival::SessionQueue;
use failpoint::Point;
use handle::Claim;
use heartbeat::HeartbeatTask;
use lock::LockExt;
use session::{IdempotencyKey, NewRun, OwnerClaim, Store, TakeOver, TakenOver, TakenOverState};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, Weak},
};
use tokio::sync::Notify;
use tools::mcp::ParkedCalls;
use watch::OwnerWatch;

/// Coordinates the turns of one process on one store. Clones share the state.
#[derive(Clone)]
pub struct Turns(Arc<TurnsInner>);

struct TurnsInner {
    store: Arc<dyn Store>,
    session_queues: Mutex<HashMap<SessionKey, Weak<SessionQueue>>>,
    heartbeat: Arc<HeartbeatTask>,
    watch: OwnerWatch,
    draft_flush: DraftFlush,
    /// Set if a recovery task of this process takes over the runs of gone owners. A waiting run then only wakes that
    /// task.
    recovery_wake: OnceLock<Arc<Notify>>,
    /// The calls that wait for the user's input.
    parked: OnceLock<ParkedCalls>,
}

/// The id and idempotency key of a run. The id is that of the invocation, unless the message responds to a call of an earlier
/// one.
#[derive(Clone, Debug)]
pub(crate) struct RunName {
    pub(crate) id: String,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// Whether the run must not exist.
    pub(crate) is_new: bool,
}

impl RunName {
    /// The name of a new run: the requested id, or a generated one.
    pub(crate) fn fresh(requested: Option<&str>) -> Self {
        let id = requested.map_or_else(mint_invocation_id, str::to_owned);
        Self { id, idempotency_key: None, is_new: true }
    }

    /// The name of a run that exists.
    pub(crate) fn existing(id: String) -> Self {
        Self { id, idempotency_key: None, is_new: false }
    }
}

/// A message that arrived: its turn, and its position among the arrivals that are not accepted yet.
pub(crate) struct Arrival {
    pub(crate) turn: Arc<TurnHandle>,
    pub(crate) guard: ArrivalGuard,
}

/// A run that this process took over, with its new owner.
pub(crate) struct Orphan {
    pub(crate) run: TakenOver,
    pub(crate) owner: Arc<OwnerClaim>,
}

impl Turns {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let watch = OwnerWatch::new(Arc::clone(&store));
        let heartbeat = Arc::new(HeartbeatTask::new(Arc::clone(&store)));
        Self(Arc::new(TurnsInner {
            store,
            session_queues: Mutex::default(),
            heartbeat,
            watch,
            draft_flush: DraftFlush::default(),
            recovery_wake: OnceLock::new(),
            parked: OnceLock::new(),
        }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Sets the parked calls of the process. Only the first call has an effect.
    pub(crate) fn share_parked(&self, parked: &ParkedCalls) {
        self.0.parked.get_or_init(|| parked.clone());
    }

    /// The calls that wait for the user's input.
    pub(crate) fn parked(&self) -> Option<&ParkedCalls> {
        self.0.parked.get()
    }

    /// Flushes the drafts of this process' runs.
    pub(crate) fn draft_flush(&self) -> &DraftFlush {
        &self.0.draft_flush
    }

    /// Registers a message. Later arrivals in its session are accepted after it.
    pub(crate) fn arrive(&self, key: &SessionKey, name: RunName) -> session::Result<Arrival> {
        let owner = Arc::new(self.0.store.claim_owner()?);
        let turn = self.handle(key, name, Claim::Own(owner));
        let guard = turn.session_queue().arrive();
        Ok(Arrival { turn, guard })
    }

    /// The turn of a run that this process took over.
    pub(crate) fn adopt(&self, key: &SessionKey, Orphan { run, owner }: Orphan) -> Arc<TurnHandle> {
        let turn = self.handle(key, RunName::existing(run.id), Claim::Shared(owner));
        match run.state {
            TakenOverState::Queued { ticket } => turn.set_queued(ticket),
            TakenOverState::Running { lease, .. } => turn.set_running(lease),
        }
        turn
    }

    fn handle(
        &self,
        key: &SessionKey,
        RunName { id, idempotency_key, is_new }: RunName,
        claim: Claim,
    ) -> Arc<TurnHandle> {
        let (Claim::Own(owner) | Claim::Shared(owner)) = &claim;
        let run = NewRun { id, owner: owner.name().to_owned(), idempotency_key, is_new };
        let handle =
            TurnHandle::new(Arc::clone(&self.0.store), key.clone(), (run, claim), self.session_queue(key));
        let handle = Arc::new(handle);
        self.0.heartbeat.watch(&handle);
        handle
    }

    fn session_queue(&self, key: &SessionKey) -> Arc<SessionQueue> {
        let mut session_queues = self.0.session_queues.locked();
        if let Some(session_queue) = session_queues.get(key).and_then(Weak::upgrade) {
            return session_queue;
        }
        session_queues.retain(|_, session_queue| session_queue.strong_count() > 0);
        let session_queue = Arc::new(SessionQueue::default());
        session_queues.insert(key.clone(), Arc::downgrade(&session_queue));
        session_queue
    }

    /// Attaches a recovery task of this process. The returned handle wakes it.
    pub(crate) fn attach_recovery_task(&self) -> Arc<Notify> {
        Arc::clone(self.0.recovery_wake.get_or_init(Arc::default))
    }

    /// Takes over the runs of dead owners, and of owners without a heartbeat for [`watch::SILENCE`]. Ordered by
    /// session; within a session the running run first, then by queue position.
    pub(crate) async fn take_over(&self, session: Option<&SessionKey>) -> session::Result<Vec<Orphan>> {
        let owner = Arc::new(self.0.store.claim_owner()?);
        let gone = self.0.watch.gone().await?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let change = TakeOver { gone, owner: owner.name().to_owned(), session: session.cloned() };
        let runs = self.0.store.take_over(change);
        let runs = failpoint::around([Point::BeforeTakeOver, Point::AfterTakeOver], runs).await?;
        Ok(runs.into_iter().map(|run| Orphan { run, owner: Arc::clone(&owner) }).collect())
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}
