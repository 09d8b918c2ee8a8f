//! A store that lives as long as its process: the plainest statement of what a store does.
//!
//! It keeps every promise of the ports but durability. One lock covers everything, so each call is one step.

mod session;
mod world;

use crate::{
    Append, Appended, Artifact, ArtifactKey, ArtifactStore, Claim, Claimed, Fact, Inbox, Lease, Leases,
    ListQuery, NewArtifact, NewRun, NewSession, NewTicket, PageRequest, Pending, Result, Run, RunLog,
    SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, Stored, TailBudget, Ticket,
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use world::World;

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

    fn append(&self, key: &SessionKey, step: Append) -> Pending<'_, Appended> {
        let key = key.clone();
        self.answer(move |world| world.append(&key, step))
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

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session(&key)?.state_changes(page)))
    }

    fn fact(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<Fact>> {
        let (key, kind, id) = (key.clone(), kind.to_owned(), id.to_owned());
        self.answer(move |world| Ok(world.session(&key).ok().and_then(|session| session.fact(kind, id))))
    }
}

impl Leases for MemoryStore {
    fn claim(&self, key: &SessionKey, claim: Claim) -> Pending<'_, Claimed> {
        let key = key.clone();
        self.answer(move |world| world.claim(&key, claim))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Pending<'_, ()> {
        let lease = lease.clone();
        self.answer(move |world| world.session_mut(&lease.key)?.renew(&lease, ttl))
    }

    fn release(&self, lease: &Lease) -> Pending<'_, ()> {
        let lease = lease.clone();
        self.answer(move |world| {
            if let Ok(session) = world.session_mut(&lease.key) {
                session.release(&lease);
            }
            Ok(())
        })
    }

    fn left(&self) -> Pending<'_, Vec<SessionKey>> {
        self.answer(|world| Ok(world.left()))
    }
}

impl Inbox for MemoryStore {
    fn push(&self, key: &SessionKey, ticket: NewTicket) -> Pending<'_, Ticket> {
        let key = key.clone();
        self.answer(move |world| world.push(&key, ticket))
    }

    fn waiting(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Ticket>> {
        let key = key.clone();
        self.answer(move |world| {
            Ok(world.session(&key).map_or_else(|_| Vec::new(), |session| session.waiting(limit)))
        })
    }

    fn withdraw(&self, key: &SessionKey, number: u64) -> Pending<'_, bool> {
        let key = key.clone();
        self.answer(move |world| Ok(world.session_mut(&key).is_ok_and(|session| session.take(number))))
    }
}

impl RunLog for MemoryStore {
    fn start(&self, run: NewRun) -> Pending<'_, Run> {
        self.answer(move |world| Ok(world.session_mut(&run.key)?.start(run)))
    }

    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>> {
        let (key, id) = (key.clone(), id.to_owned());
        self.answer(move |world| Ok(world.session(&key).ok().and_then(|session| session.run(&id).cloned())))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>> {
        let key = key.clone();
        self.answer(move |world| {
            Ok(world.session(&key).map_or_else(|_| Vec::new(), |session| session.runs(limit)))
        })
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
