//! A store that shows which steps pass through it, and that refuses those that it is told to refuse.

use super::Shared;
use session::{
    Append, Appended, Artifact, ArtifactKey, ArtifactStore, Claim, Claimed, Error, Fact, Inbox, Lease,
    Leases, ListQuery, NewArtifact, NewRun, NewSession, NewTicket, PageRequest, Pending, Run, RunLog,
    SessionKey, SessionLog, SessionRow, SessionStore, Snapshot, StateEntry, Stored, TailBudget, Ticket,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

type Refusal = Box<dyn Fn(&Append) -> bool + Send + Sync>;

pub(crate) struct Tap {
    store: Shared,
    steps: Mutex<Vec<Append>>,
    refuses: Mutex<Option<Refusal>>,
    loads: AtomicUsize,
    lookups: AtomicUsize,
    renewals: AtomicUsize,
    releases: AtomicUsize,
    busy: AtomicUsize,
    held: watch::Sender<bool>,
}

impl Tap {
    pub(crate) fn on(store: &Shared) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            steps: Mutex::default(),
            refuses: Mutex::default(),
            loads: AtomicUsize::new(0),
            lookups: AtomicUsize::new(0),
            renewals: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            held: watch::Sender::new(false),
        })
    }

    /// The steps that were stored since the last look.
    pub(crate) fn steps(&self) -> Vec<Append> {
        std::mem::take(&mut *self.steps.lock().unwrap())
    }

    pub(crate) fn refuse(&self, which: impl Fn(&Append) -> bool + Send + Sync + 'static) {
        *self.refuses.lock().unwrap() = Some(Box::new(which));
    }

    /// How often a session was read since the last look.
    pub(crate) fn loads(&self) -> usize {
        self.loads.swap(0, Ordering::Relaxed)
    }

    /// How often a fact was asked for by its name, or a page of the log.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Whoever reads a session waits, or waits no more.
    pub(crate) fn hold_loads(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// How often a lease was renewed.
    pub(crate) fn renewals(&self) -> usize {
        self.renewals.load(Ordering::Relaxed)
    }

    /// How often a lease was given back by itself, and not with a step.
    pub(crate) fn releases(&self) -> usize {
        self.releases.load(Ordering::Relaxed)
    }

    /// The store is too busy for so many looks at the inbox.
    pub(crate) fn be_busy(&self, times: usize) {
        self.busy.store(times, Ordering::Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn refuse_nothing(&self) {
        *self.refuses.lock().unwrap() = None;
    }
}

impl SessionStore for Tap {
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

    fn append(&self, key: &SessionKey, step: Append) -> Pending<'_, Appended> {
        if self.refuses.lock().unwrap().as_ref().is_some_and(|refuses| refuses(&step)) {
            return Box::pin(async { Err(Error::Backend("the disk is on fire".into())) });
        }
        let key = key.clone();
        Box::pin(async move {
            let appended = self.store.append(&key, step.clone()).await?;
            self.steps.lock().unwrap().push(step);
            Ok(appended)
        })
    }

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>> {
        self.store.list(query)
    }

    fn delete(&self, key: &SessionKey) -> Pending<'_, bool> {
        self.store.delete(key)
    }
}

impl SessionLog for Tap {
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<Stored>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.store.read(key, page)
    }

    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>> {
        self.store.state_changes(key, page)
    }

    fn fact(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<Fact>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.store.fact(key, kind, id)
    }
}

impl Leases for Tap {
    fn claim(&self, key: &SessionKey, claim: Claim) -> Pending<'_, Claimed> {
        self.store.claim(key, claim)
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Pending<'_, ()> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.store.renew(lease, ttl)
    }

    fn release(&self, lease: &Lease) -> Pending<'_, ()> {
        self.releases.fetch_add(1, Ordering::Relaxed);
        self.store.release(lease)
    }

    fn left(&self) -> Pending<'_, Vec<SessionKey>> {
        self.store.left()
    }
}

impl Inbox for Tap {
    fn push(&self, key: &SessionKey, ticket: NewTicket) -> Pending<'_, Ticket> {
        self.store.push(key, ticket)
    }

    fn waiting(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Ticket>> {
        let busy = self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if let Ok(waiting) = busy {
            return Box::pin(async move { Err(Error::QueueFull { waiting }) });
        }
        self.store.waiting(key, limit)
    }

    fn withdraw(&self, key: &SessionKey, number: u64) -> Pending<'_, bool> {
        self.store.withdraw(key, number)
    }
}

impl RunLog for Tap {
    fn start(&self, run: NewRun) -> Pending<'_, Run> {
        self.store.start(run)
    }

    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>> {
        self.store.run(key, id)
    }

    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>> {
        self.store.runs(key, limit)
    }
}

impl ArtifactStore for Tap {
    fn save(&self, key: &ArtifactKey, artifact: NewArtifact) -> Pending<'_, u64> {
        self.store.save(key, artifact)
    }

    fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Pending<'_, Option<Artifact>> {
        self.store.artifact(key, version)
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
