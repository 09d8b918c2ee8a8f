//! A store that records the commits that pass through it, and fails selected ones.

use super::Shared;
use session::{
    Activity, Artifact, ArtifactKey, ArtifactStore, Commit, Committed, Drafts, Error, Heartbeat,
    IdempotencyKey, Lease, ListQuery, Liveness, NewArtifact, NewRun, NewSession, OwnerClaim, OwnerStatus,
    Owners, PageRequest, Pending, PendingEntry, RecipeQuery, RecipeText, Recipes, Result, RunLog, RunRecord,
    RunStore, SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, StoredMessage,
    StoredRecipe, TailBudget, TakeOver, TakenOver, Withdrawal,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;

type Fault = Box<dyn Fn(&Commit) -> bool + Send + Sync>;

pub(crate) struct RecordingStore {
    store: Shared,
    commits: Mutex<Vec<Commit>>,
    fault: Mutex<Option<Fault>>,
    loads: AtomicUsize,
    lookups: AtomicUsize,
    heartbeats: AtomicUsize,
    busy: AtomicUsize,
    held: watch::Sender<bool>,
}

impl RecordingStore {
    pub(crate) fn on(store: &Shared) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            commits: Mutex::default(),
            fault: Mutex::default(),
            loads: AtomicUsize::new(0),
            lookups: AtomicUsize::new(0),
            heartbeats: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            held: watch::Sender::new(false),
        })
    }

    /// The commits that were stored since the last call.
    pub(crate) fn commits(&self) -> Vec<Commit> {
        std::mem::take(&mut *self.commits.lock().unwrap())
    }

    /// Fails the commits that `which` selects.
    pub(crate) fn fail(&self, which: impl Fn(&Commit) -> bool + Send + Sync + 'static) {
        *self.fault.lock().unwrap() = Some(Box::new(which));
    }

    pub(crate) fn fail_nothing(&self) {
        *self.fault.lock().unwrap() = None;
    }

    /// The number of session loads since the last call.
    pub(crate) fn loads(&self) -> usize {
        self.loads.swap(0, Ordering::Relaxed)
    }

    /// The number of reads of pending entries and pages.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Blocks loads of sessions, or admits them again.
    pub(crate) fn hold_loads(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.heartbeats.load(Ordering::Relaxed)
    }

    /// Fails the next `times` reads of the queue with an overloaded store.
    pub(crate) fn be_busy(&self, times: usize) {
        self.busy.store(times, Ordering::Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

impl SessionStore for RecordingStore {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow> {
        self.store.create(new)
    }

    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let (key, mut held) = (key.clone(), self.held.subscribe());
        Box::pin(async move {
            held.wait_for(|held| !held).await.unwrap();
            self.store.load(&key, tail).await
        })
    }

    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed> {
        if self.fault.lock().unwrap().as_ref().is_some_and(|fails| fails(&commit)) {
            return Box::pin(async { Err(Error::Backend("the disk is on fire".into())) });
        }
        let key = key.clone();
        Box::pin(async move {
            let committed = self.store.commit(&key, commit.clone()).await?;
            self.commits.lock().unwrap().push(commit);
            Ok(committed)
        })
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        self.store.list(query)
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        self.store.delete(key)
    }
}

impl SessionLog for RecordingStore {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.store.read(key, page)
    }

    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<StoredMessage>> {
        self.store.read_run(key, run, page)
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        self.store.state_changes(key, page)
    }

    fn pending_entry(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<PendingEntry>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.store.pending_entry(key, kind, id)
    }
}

impl RunStore for RecordingStore {
    fn request_cancel(&self, key: &SessionKey, id: &str) -> Pending<'_, bool> {
        self.store.request_cancel(key, id)
    }

    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, RunRecord> {
        self.store.enqueue(key, run, payload)
    }

    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>> {
        self.store.payload(key, id)
    }

    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool> {
        self.store.withdraw(key, withdrawal)
    }

    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>> {
        self.store.take_over(change)
    }

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity> {
        let busy = self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if let Ok(waiting) = busy {
            return Box::pin(async move { Err(Error::QueueFull { waiting }) });
        }
        self.store.activity(key)
    }
}

impl RunLog for RecordingStore {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<RunRecord>> {
        self.store.run(key, id)
    }

    fn run_of_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Pending<'_, Option<RunRecord>> {
        self.store.run_of_request(key, request)
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<RunRecord>> {
        self.store.runs(key, limit)
    }
}

impl Owners for RecordingStore {
    fn claim_owner(&self) -> Result<OwnerClaim> {
        self.store.claim_owner()
    }

    fn liveness(&self, owner: &str) -> Liveness {
        self.store.liveness(owner)
    }

    fn heartbeat(&self) -> Pending<'_, Heartbeat> {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        self.store.heartbeat()
    }

    fn release(&self) -> Pending<'_, ()> {
        self.store.release()
    }

    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>> {
        self.store.owners()
    }
}

impl Drafts for RecordingStore {
    fn extend_draft(&self, lease: &Lease, chunk: String) -> Pending<'_, ()> {
        self.store.extend_draft(lease, chunk)
    }
}

impl Recipes for RecordingStore {
    fn recipes(&self, key: &SessionKey, query: RecipeQuery) -> Pending<'_, Vec<StoredRecipe>> {
        self.store.recipes(key, query)
    }

    fn recipe_texts(&self, key: &SessionKey, hashes: Vec<String>) -> Pending<'_, Vec<RecipeText>> {
        self.store.recipe_texts(key, hashes)
    }
}

impl ArtifactStore for RecordingStore {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        self.store.save(key, artifact)
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        self.store.artifact(key, version)
    }

    fn metadata(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        self.store.metadata(key, version)
    }

    fn names(&self, session: &SessionKey) -> Pending<'_, Vec<String>> {
        self.store.names(session)
    }

    fn versions(&self, key: &ArtifactKey) -> Pending<'_, Vec<u64>> {
        self.store.versions(key)
    }

    fn remove(&self, key: &ArtifactKey) -> Pending<'_, bool> {
        self.store.remove(key)
    }
}
