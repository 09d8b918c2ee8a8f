//! Turns: one run at a time in each session, in the order of acceptance, across tasks and processes.
//!
//! | read | for |
//! |---|---|
//! | `arrival` | a fair lock for each session: messages that arrive at one process are accepted in the order of arrival |
//! | `abandon` | how a turn that is dropped in the middle ends its run |
//! | `handle` | the state of one turn, and the only way in which its commits reach the store |
//! | `phase` | where a turn is, from its first attempt to start to its end |
//! | `backoff` | pauses between attempts of what the store failed at |
//! | `waiting` | how a queued run waits until it is the first of its session |
//! | `heartbeat` | what tells other processes that this one is at work |
//! | `watch` | which owners are gone: dead, or without a heartbeat |
//! | `request` | a queued message: all that is needed to run it in another process |
//!
//! The states of a run and of its lease are those of [`session::lifecycle`]; this module decides nothing about them.

mod abandon;
mod arrival;
mod backoff;
mod handle;
mod heartbeat;
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

use crate::store::service::store_key;
use adk::{draft::DraftFlush, session::SessionKey};
use arrival::SessionGate;
use failpoint::Point;
use handle::Claim;
use heartbeat::HeartbeatTask;
use session::{NewRun, OwnerClaim, RequestKey, Store, TakeOver, TakenOver, TakenOverState};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};
use tokio::sync::Notify;
use watch::OwnerWatch;

/// What coordinates the turns of one process on one store. Clones share it.
#[derive(Clone)]
pub struct Turns(Arc<TurnsInner>);

struct TurnsInner {
    store: Arc<dyn Store>,
    gates: Mutex<HashMap<SessionKey, Weak<SessionGate>>>,
    heartbeat: Arc<HeartbeatTask>,
    watch: OwnerWatch,
    draft_flush: DraftFlush,
    /// Set if a task of this process takes over the runs of owners that are gone; a waiting run then only wakes it.
    sweeper: OnceLock<Arc<Notify>>,
}

/// The identity of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunName {
    pub(crate) id: String,
    pub(crate) request_key: Option<RequestKey>,
}

impl RunName {
    pub(crate) fn fresh() -> Self {
        Self { id: uuid::Uuid::new_v4().to_string(), request_key: None }
    }
}

/// A message that arrived: its turn, and its place among the messages that this process has not accepted yet.
pub(crate) struct Arrival {
    pub(crate) turn: Arc<TurnHandle>,
    pub(crate) guard: ArrivalGuard,
}

/// A run that was taken over, with the claim that makes it ours.
pub(crate) struct Orphan {
    pub(crate) run: TakenOver,
    pub(crate) owner: Arc<OwnerClaim>,
}

impl Turns {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let watch = OwnerWatch::new(Arc::clone(&store));
        let heartbeat = Arc::new(HeartbeatTask::new(Arc::clone(&store)));
        let (gates, draft_flush, sweeper) = (Mutex::default(), DraftFlush::default(), OnceLock::new());
        Self(Arc::new(TurnsInner { store, gates, heartbeat, watch, draft_flush, sweeper }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// What the runs of this process save their drafts by.
    pub(crate) fn draft_flush(&self) -> &DraftFlush {
        &self.0.draft_flush
    }

    /// A message arrives. From now on it is before all that arrive later.
    pub(crate) fn arrive(&self, key: &SessionKey, name: RunName) -> session::Result<Arrival> {
        let owner = Arc::new(self.0.store.claim_owner()?);
        let turn = self.handle(key, name, Claim::Own(owner));
        let guard = turn.gate().arrive();
        Ok(Arrival { turn, guard })
    }

    /// The turn of a run that this process took over.
    pub(crate) fn adopt(&self, key: &SessionKey, Orphan { run, owner }: Orphan) -> Arc<TurnHandle> {
        let turn = self.handle(key, RunName { id: run.id, request_key: None }, Claim::Shared(owner));
        match run.state {
            TakenOverState::Queued { ticket } => turn.adopted(ticket),
            TakenOverState::Running { lease, .. } => turn.resumed(lease),
        }
        turn
    }

    fn handle(
        &self,
        key: &SessionKey,
        RunName { id, request_key }: RunName,
        claim: Claim,
    ) -> Arc<TurnHandle> {
        let (Claim::Own(owner) | Claim::Shared(owner)) = &claim;
        let run = NewRun { id, owner: owner.name().to_owned(), request_key };
        let handle = TurnHandle::new(Arc::clone(&self.0.store), store_key(key), (run, claim), self.gate(key));
        let handle = Arc::new(handle);
        self.0.heartbeat.attend(&handle);
        handle
    }

    fn gate(&self, key: &SessionKey) -> Arc<SessionGate> {
        let mut gates = self.0.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(key).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(SessionGate::default());
        gates.insert(key.clone(), Arc::downgrade(&gate));
        gate
    }

    /// From now on a task of this process takes over the runs of owners that are gone, when it is woken and from time to time.
    pub(crate) fn attach_sweeper(&self) -> Arc<Notify> {
        Arc::clone(self.0.sweeper.get_or_init(Arc::default))
    }

    /// Takes over the runs of dead owners, and of those without a heartbeat if their silence was observed for long enough.
    /// By session, the running one first, then in the order of the queue.
    pub(crate) async fn take_over(&self, session: Option<&SessionKey>) -> session::Result<Vec<Orphan>> {
        let owner = Arc::new(self.0.store.claim_owner()?);
        let gone = self.0.watch.gone().await?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let change = TakeOver { gone, owner: owner.name().to_owned(), session: session.map(store_key) };
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
