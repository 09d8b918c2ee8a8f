//! The in-memory backend, for tests and for programs without persistence.
//!
//! It implements every guarantee of the traits except durability. One mutex guards all data, so each call is atomic.

mod idempotency_keys;
mod recipes;
mod runs;
mod session;
mod state;

use crate::{
    Activity, Artifact, ArtifactKey, ArtifactStore, Commit, Committed, Drafts, Heartbeat, IdempotencyKey,
    Lease, ListQuery, Liveness, NewArtifact, NewRun, NewSession, OwnerClaim, OwnerStatus, Owners,
    PageRequest, Pending, PendingEntry, RecipeQuery, RecipeText, Recipes, Result, RunLog, RunRecord,
    RunStore, SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, StoredMessage,
    StoredRecipe, TailBudget, TakeOver, TakenOver, Withdrawal,
};
use lock::LockExt;
use state::MemoryState;
use std::sync::{Arc, Mutex};

/// The name of this process in every in-memory store.
const PROCESS: &str = "memory";

/// Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` when the future is polled: a future that is dropped before changes nothing.
    fn call<T: Send>(
        &self,
        work: impl FnOnce(&mut MemoryState) -> Result<T> + Send + 'static,
    ) -> Pending<'_, T> {
        Box::pin(async move { work(&mut self.state.locked()) })
    }
}

impl SessionStore for MemoryStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        self.call(move |state| state.create(new))
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        let key = key.clone();
        self.call(move |state| Ok(state.load(&key, tail)))
    }

    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed> {
        let key = key.clone();
        self.call(move |state| state.commit(&key, commit))
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        self.call(move |state| Ok(state.list(&query)))
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        let key = key.clone();
        self.call(move |state| Ok(state.delete(&key)))
    }
}

impl SessionLog for MemoryStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.read(page)))
    }

    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.read_run(run, page)))
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.state_changes(page)))
    }

    fn pending_entry(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<PendingEntry>> {
        let (key, kind, id) = (key.clone(), kind.to_owned(), id.to_owned());
        self.call(move |state| {
            Ok(state.session(&key).ok().and_then(|session| session.pending_entry(kind, id)))
        })
    }
}

impl Recipes for MemoryStore {
    fn recipes(&self, key: &SessionKey, query: RecipeQuery) -> Pending<'_, Vec<StoredRecipe>> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.recipes(&query)))
    }

    fn recipe_texts(&self, key: &SessionKey, hashes: Vec<String>) -> Pending<'_, Vec<RecipeText>> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.recipe_texts(&hashes)))
    }
}

impl RunStore for MemoryStore {
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, RunRecord> {
        let key = key.clone();
        self.call(move |state| state.enqueue(&key, &run, payload))
    }

    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>> {
        let (key, id) = (key.clone(), id.to_owned());
        self.call(move |state| Ok(state.session(&key).ok().and_then(|session| session.payload(&id))))
    }

    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool> {
        let key = key.clone();
        self.call(move |state| Ok(state.session_mut(&key).is_ok_and(|session| session.withdraw(withdrawal))))
    }

    fn request_cancel(&self, _: &SessionKey, _: &str) -> Pending<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>> {
        self.call(move |state| state.take_over(&change))
    }

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity> {
        let key = key.clone();
        self.call(move |state| Ok(state.session(&key)?.activity()))
    }
}

impl RunLog for MemoryStore {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<RunRecord>> {
        let (key, id) = (key.clone(), id.to_owned());
        self.call(move |state| Ok(state.session(&key).ok().and_then(|session| session.run(&id))))
    }

    fn run_of_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Pending<'_, Option<RunRecord>> {
        let (key, request) = (key.clone(), request.clone());
        self.call(move |state| state.run_of_request(&key, &request))
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<RunRecord>> {
        let key = key.clone();
        self.call(move |state| {
            Ok(state.session(&key).map_or_else(|_| Vec::new(), |session| session.runs(limit)))
        })
    }
}

impl Owners for MemoryStore {
    fn claim_owner(&self) -> Result<OwnerClaim> {
        Ok(OwnerClaim::claim(PROCESS))
    }

    /// No other process can open this store, so every name of another process counts as alive.
    fn liveness(&self, owner: &str) -> Liveness {
        let is_dead = OwnerClaim::process_of(owner) == PROCESS && !OwnerClaim::is_held(owner);
        if is_dead { Liveness::Dead } else { Liveness::Alive }
    }

    fn heartbeat(&self) -> Pending<'_, Heartbeat> {
        self.call(|state| Ok(state.heartbeat(PROCESS)))
    }

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>> {
        self.call(|state| Ok(state.owners()))
    }
}

impl Drafts for MemoryStore {
    fn extend_draft(&self, lease: &Lease, chunk: String) -> Pending<'_, ()> {
        let lease = lease.clone();
        self.call(move |state| state.session_mut(&lease.key)?.extend_draft(&lease, chunk))
    }
}

impl ArtifactStore for MemoryStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        let key = key.clone();
        self.call(move |state| Ok(state.save(&key, artifact)))
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        self.call(move |state| Ok(state.artifact(&key, version)))
    }

    fn metadata(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        let key = key.clone();
        self.call(move |state| {
            let artifact = state.artifact(&key, version);
            Ok(artifact.map(|artifact| Artifact { part: String::new(), ..artifact }))
        })
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        let session = session.clone();
        self.call(move |state| Ok(state.names(&session)))
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        let key = key.clone();
        self.call(move |state| Ok(state.versions(&key)))
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        let key = key.clone();
        self.call(move |state| Ok(state.remove(&key)))
    }
}
