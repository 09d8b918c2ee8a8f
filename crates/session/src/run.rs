//! Runs: what became of each request, who works on it, and which messages wait.

use crate::{Error, Pending, Result, RunStatus, Seq, SessionKey};

/// A run that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The id of a run that is `waiting` continues that run.
    pub id: String,
    pub owner: String,
    pub request_key: Option<RequestKey>,
}

/// An idempotency key. It belongs to the user, and is stored by the commit that stores its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    pub key: String,
    /// A digest of everything that the request asks for: a key with another digest is another request.
    pub fingerprint: String,
}

/// The request that an idempotency key stands for.
#[derive(Clone, Debug)]
pub(crate) struct KnownRequest {
    /// Unknown for requests that earlier versions stored.
    pub(crate) fingerprint: Option<String>,
    pub(crate) key: SessionKey,
    /// The run that it became.
    pub(crate) id: String,
    pub(crate) status: RunStatus,
}

/// What is about to be stored for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    Enqueue,
    Start,
}

impl KnownRequest {
    /// Admits nothing but the start of the queued run of this very request.
    pub(crate) fn admit(self, key: &SessionKey, run: &NewRun, acceptance: Acceptance) -> Result<()> {
        if let Some(request) = &run.request_key {
            self.check(key, request)?;
        }
        let is_queued = self.id == run.id && self.status == RunStatus::Queued;
        if is_queued && acceptance == Acceptance::Start {
            return Ok(());
        }
        Err(Error::Duplicate { key: self.key, id: self.id })
    }

    /// Refuses a request that is another one.
    pub(crate) fn check(&self, key: &SessionKey, request: &RequestKey) -> Result<()> {
        let is_known = self.fingerprint.as_ref().is_none_or(|known| *known == request.fingerprint);
        if self.key == *key && is_known { Ok(()) } else { Err(Error::KeyReused) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub id: String,
    pub key: SessionKey,
    /// Counts the runs of the session; rows of the log carry it.
    pub number: u64,
    pub status: RunStatus,
    pub owner: String,
    /// The log up to here existed before the run appended its first row.
    pub started_after: Seq,
    /// The last place in the log that the run had taken when its status last changed.
    pub last_seq: Seq,
    pub error: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
    /// Its place in the queue of its session, if it is queued: tickets grow with each message that is queued.
    pub ticket: Option<u64>,
    /// How many runs are queued before it, if it is queued.
    pub ahead: Option<u64>,
}

/// The right to append to a session: held by its running run, fenced by its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub key: SessionKey,
    /// The [number](Run::number) of the run.
    pub run: u64,
    pub epoch: u64,
}

/// What waits or works in a session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub running: Option<OwnedRun>,
    /// The lease of the running run: its owner may not have been told that the run has started.
    pub lease: Option<Lease>,
    /// The run that starts next.
    pub first_queued: Option<OwnedRun>,
}

impl Activity {
    /// The lease of a run, if it is running and belongs to `owner`.
    pub fn lease_of(&self, id: &str, owner: &str) -> Option<Lease> {
        let running = self.running.as_ref().filter(|run| run.id == id && run.owner == owner);
        running.and(self.lease.clone())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRun {
    pub id: String,
    pub owner: String,
    /// Its place in the queue, if it is queued.
    pub ticket: Option<u64>,
}

/// Makes `owner` responsible for the runs of owners that are gone.
#[derive(Clone, Debug)]
pub struct TakeOver {
    pub gone: Vec<GoneOwner>,
    pub owner: String,
    /// In this session only.
    pub session: Option<SessionKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneOwner {
    pub name: String,
    /// Its process exists, but sent no heartbeat since this one: another heartbeat proves that it is alive after all.
    pub if_beats: Option<u64>,
}

/// A run that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    pub key: SessionKey,
    pub id: String,
    pub state: TakenOverState,
}

/// What the new owner needs to continue a run that it took over. Only a running run holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenOverState {
    Queued {
        ticket: u64,
    },
    Running {
        lease: Lease,
        /// The [options](crate::Start::options) that the run was started with.
        options: Option<String>,
    },
}

impl TakenOver {
    pub fn status(&self) -> RunStatus {
        match self.state {
            TakenOverState::Queued { .. } => RunStatus::Queued,
            TakenOverState::Running { .. } => RunStatus::Running,
        }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            TakenOverState::Queued { .. } => None,
            TakenOverState::Running { lease, .. } => Some(lease),
        }
    }
}

/// A queued run that leaves the queue without having run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    pub id: String,
    pub owner: String,
    /// `Cancelled` or `Failed`.
    pub status: RunStatus,
    pub error: Option<String>,
}

pub trait RunStore: Send + Sync {
    /// Queues a message: its run and its payload are one row, stored by one commit. [`Error::Duplicate`] or
    /// [`Error::KeyReused`] if the request key is known.
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, Run>;

    /// The payload of a queued run; `None` if it is not queued.
    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>>;

    /// `false` if the run is not queued, or not by this owner.
    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool>;

    /// The runs that were taken over: by session, oldest first; in a session the running one first, then in the order of the
    /// queue.
    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>>;

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity>;
}

pub trait RunLog: Send + Sync {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>>;

    /// The run that a request became; `None` if its key is unknown. [`Error::KeyReused`] if the key stands for another
    /// request.
    fn run_of_request(&self, key: &SessionKey, request: &RequestKey) -> Pending<'_, Option<Run>>;

    /// The runs of a session, newest first; at most `limit`.
    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>>;
}

/// The error of a run whose question was settled by another message.
pub const SUPERSEDED: &str = "another message came before the answer";
