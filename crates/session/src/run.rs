//! Runs: the status of each request, its owner, and the queue of a session.

use crate::{Error, Pending, Result, RunStatus, Seq, SessionKey};

/// A run to enqueue or to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Unique in the session. The id of a `waiting` run continues that run, unless `is_new` is set.
    pub id: String,
    pub owner: String,
    pub idempotency_key: Option<IdempotencyKey>,
    /// Fails with [`Error::RunExists`] if the session has a run with this id, whatever its status.
    pub is_new: bool,
}

impl NewRun {
    /// `exists` says whether the session has a run with this id.
    pub(crate) fn admit(&self, key: &SessionKey, exists: bool) -> Result<()> {
        if self.is_new && exists {
            return Err(Error::RunExists { key: key.clone(), id: self.id.clone() });
        }
        Ok(())
    }
}

/// An idempotency key with the fingerprint of its request. It is unique per user, and stored by the commit that stores
/// the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// The SHA-256 digest of the request. The same key with another fingerprint is refused.
    pub fingerprint: String,
}

/// The request that was stored with an idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct KnownRequest {
    /// `None` for requests that earlier versions stored.
    pub(crate) fingerprint: Option<String>,
    pub(crate) key: SessionKey,
    /// The id of its run.
    pub(crate) id: String,
    pub(crate) status: RunStatus,
}

/// How a request is about to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptedAs {
    Enqueue,
    Start,
}

impl KnownRequest {
    /// Admits only the start of the queued run of the same request. Everything else is a duplicate.
    pub(crate) fn admit(self, key: &SessionKey, run: &NewRun, acceptance: AcceptedAs) -> Result<()> {
        if let Some(request) = &run.idempotency_key {
            self.check(key, request)?;
        }
        let is_queued = self.id == run.id && self.status == RunStatus::Queued;
        if is_queued && acceptance == AcceptedAs::Start {
            return Ok(());
        }
        Err(Error::Duplicate { key: self.key, id: self.id })
    }

    /// Compares an idempotency key: fails if the session or the fingerprint of the request differ.
    pub(crate) fn check(&self, key: &SessionKey, request: &IdempotencyKey) -> Result<()> {
        let is_known = self.fingerprint.as_ref().is_none_or(|known| *known == request.fingerprint);
        if self.key == *key && is_known { Ok(()) } else { Err(Error::KeyReused) }
    }
}

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    pub id: String,
    pub key: SessionKey,
    /// Numbers the runs of a session from 1. Each row of the log has the number of its run.
    pub number: u64,
    pub status: RunStatus,
    pub owner: String,
    /// The last sequence number before the first row of the run.
    pub started_after: Seq,
    /// The last sequence number of the run, as of its last change of status.
    pub last_seq: Seq,
    pub error: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
    /// The ticket of a queued run. Tickets grow with each queued message.
    pub ticket: Option<u64>,
    /// The number of runs queued before a queued run.
    pub ahead: Option<u64>,
}

/// The right to append to a session. Its running run holds it, and the epoch fences earlier holders.
///
/// It ends with the run, or when the run is taken over because its owner is gone (see [`owner`](crate::owner)): heartbeats of
/// the owner's process keep all of its leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub key: SessionKey,
    /// The [number](RunRecord::number) of the run.
    pub run: u64,
    /// The fencing token: a commit with another epoch than the session's is refused.
    pub epoch: u64,
}

/// The open runs of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub running: Option<OwnedRun>,
    /// The lease of the running run, for an owner that missed the acknowledgement of its start.
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

/// A queued or running run with its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRun {
    pub id: String,
    pub owner: String,
    /// The ticket of a queued run.
    pub ticket: Option<u64>,
}

/// Transfers the runs of dead owners to `owner`.
#[derive(Clone, Debug)]
pub struct TakeOver {
    pub gone: Vec<GoneOwner>,
    /// A claim that owns no other run.
    pub owner: String,
    /// Limits the take-over to one session.
    pub session: Option<SessionKey>,
}

/// An owner whose runs may be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneOwner {
    pub name: String,
    /// The number of heartbeats that the caller saw, for a process that exists but is silent. A further heartbeat prevents the
    /// take-over. `None` if the process is dead.
    pub if_beats: Option<u64>,
}

/// A run after its take-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    pub key: SessionKey,
    pub id: String,
    pub state: TakenOverState,
}

/// The state that the new owner needs to continue a run. Only a running run holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenOverState {
    Queued {
        ticket: u64,
    },
    Running {
        lease: Lease,
        /// The [options](crate::Start::options) of the start.
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

/// Removes a queued run from the queue before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    pub id: String,
    pub owner: String,
    /// `Cancelled` or `Failed`.
    pub status: RunStatus,
    pub error: Option<String>,
}

pub trait RunStore: Send + Sync {
    /// Queues a message. The run and its payload are one row, stored by one commit. [`Error::Duplicate`] or
    /// [`Error::KeyReused`] if the idempotency key is known, [`Error::RunExists`] if the run must be new and is not.
    fn enqueue(&self, key: &SessionKey, run: NewRun, payload: String) -> Pending<'_, RunRecord>;

    /// The payload of a queued run; `None` if it is not queued.
    fn payload(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<String>>;

    /// Returns `false` if the run is not queued or has another owner.
    fn withdraw(&self, key: &SessionKey, withdrawal: Withdrawal) -> Pending<'_, bool>;

    /// Asks the owner of a queued or running run, which may be another process, to cancel it; its next heartbeat reports the
    /// request. `false` if the run is not open, or if the store cannot reach other processes (SQLite and memory).
    fn request_cancel(&self, key: &SessionKey, id: &str) -> Pending<'_, bool>;

    /// Returns the transferred runs, grouped by session, oldest session first: the running run, then the queue in order.
    fn take_over(&self, change: TakeOver) -> Pending<'_, Vec<TakenOver>>;

    fn activity(&self, key: &SessionKey) -> Pending<'_, Activity>;
}

pub trait RunLog: Send + Sync {
    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<RunRecord>>;

    /// Finds the run of a request by its idempotency key. [`Error::KeyReused`] if the key belongs to another request.
    fn run_of_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Pending<'_, Option<RunRecord>>;

    /// The newest runs of a session, newest first.
    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<RunRecord>>;
}

/// The error of a run whose question was superseded by another message.
pub const SUPERSEDED: &str = "another message came before the answer";
