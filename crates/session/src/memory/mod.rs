//! A store that lives as long as its process: the plainest statement of what a store does.
//!
//! It keeps every promise of the ports but durability. One lock covers everything, so each call is one step.

mod request_keys;
mod runs;
mod session;
mod world;

use crate::{
    Activity, Artifact, ArtifactKey, ArtifactStore, Commit, Committed, Drafts, Fact, Heartbeat, Lease,
    ListQuery, Liveness, NewArtifact, NewRun, NewSession, Owner, OwnerStatus, Owners, PageRequest, Pending,
    RequestKey, Result, Run, RunLog, RunStore, SessionKey, SessionLog, SessionRow, SessionStore, Snapshot,
    StateEntry, Stored, TailBudget, TakeOver, TakenOver, Withdrawal,
};
use std::sync::{Arc, Mutex, PoisonError};
use world::World;

/// What this process is called in every store that lives in memory.
const PROCESS: &str = "memory";

/// Clones share what they hold.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    world: Arc<Mutex<World>>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// The work is done when the answer is polled, so that an answer which is dropped unpolled changes nothing.
    fn answer<T: Send>(&self, work: impl FnOnce(&mut World) -> Result<T> + Send + 'static) -> Pending<'_, T> {
        // No step of the world panics half-way, so a poisoned lock still guards whole data.
        Box::pin(async move { work(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner)) })
    }
}

impl SessionStore for MemoryStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        self.answer(move |world| world.create(new))
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.load(&key, tail)))
    }

    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed> {
        let key = key.clone();
        self.answer(move |world| world.commit(&key, commit))
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        self.answer(move |world| Ok(world.list(&query)))
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        let key = key.clone();
        self.answer(move |world| Ok(world.delete(&key)))
    }
}

impl SessionLog for MemoryStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<Stored>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session(&key)?.read(page)))
    }

    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<Stored>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session(&key)?.read_run(run, page)))
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session(&key)?.state_changes(page)))
    }

    fn fact(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<Fact>> {
        let (key, kind, id) = (key.clone(), kind.to_owned(), id.to_owned());
        self.answer(move |world| Ok(world.session(&key).ok().and_then(|session| session.fact(kind, id))))
    }
}

impl RunStore for MemoryStore {
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, Run> {
        let key = key.clone();
        self.answer(move |world| world.enqueue(&key, &run, payload))
    }

    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>> {
        let (key, id) = (key.clone(), id.to_owned());
        self.answer(move |world| Ok(world.session(&key).ok().and_then(|session| session.payload(&id))))
    }

    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool> {
        let key = key.clone();
        self.answer(move |world| {
            Ok(world.session_mut(&key).is_ok_and(|session| session.withdraw(withdrawal)))
        })
    }

    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>> {
        self.answer(move |world| world.take_over(&change))
    }

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session(&key)?.activity()))
    }
}

impl RunLog for MemoryStore {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>> {
        let (key, id) = (key.clone(), id.to_owned());
        self.answer(move |world| Ok(world.session(&key).ok().and_then(|session| session.run(&id))))
    }

    fn run_of_request(&self, key: &SessionKey, request: &RequestKey) -> Pending<'_, Option<Run>> {
        let (key, request) = (key.clone(), request.clone());
        self.answer(move |world| world.run_of_request(&key, &request))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>> {
        let key = key.clone();
        self.answer(move |world| {
            Ok(world.session(&key).map_or_else(|_| Vec::new(), |session| session.runs(limit)))
        })
    }
}

impl Owners for MemoryStore {
    fn claim_owner(&self) -> Result<Owner> {
        Ok(Owner::claim(PROCESS))
    }

    /// Another process cannot reach this store: a name that is not ours stands for one that exists.
    fn liveness(&self, owner: &str) -> Liveness {
        let is_dead = Owner::process_of(owner) == PROCESS && !Owner::is_held(owner);
        if is_dead { Liveness::Dead } else { Liveness::Alive }
    }

    fn heartbeat(&self) -> Pending<'_, Heartbeat> {
        self.answer(|world| Ok(world.heartbeat(PROCESS)))
    }

    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>> {
        self.answer(|world| Ok(world.owners()))
    }
}

impl Drafts for MemoryStore {
    fn extend_draft(&self, lease: &Lease, piece: String) -> Pending<'_, ()> {
        let lease = lease.clone();
        self.answer(move |world| world.session_mut(&lease.key)?.extend_draft(&lease, piece))
    }
}

impl ArtifactStore for MemoryStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        let key = key.clone();
        self.answer(move |world| Ok(world.save(&key, artifact)))
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.artifact(&key, version)))
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        let session = session.clone();
        self.answer(move |world| Ok(world.names(&session)))
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.versions(&key)))
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        let key = key.clone();
        self.answer(move |world| Ok(world.remove(&key)))
    }
}
