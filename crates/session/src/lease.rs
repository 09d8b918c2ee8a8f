//! Who may run a session's turn: a lease in the session's row, with a number that grows with each owner.

use crate::{Pending, SessionKey};
use std::time::Duration;

/// The right to run turns on one session until it expires, unless it is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub key: SessionKey,
    pub owner: String,
    /// Appends that carry this number are refused once there was another owner, or another session of the same name:
    /// no two of them ever have the same one.
    pub epoch: u64,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub owner: String,
    pub ttl: Duration,
    /// Takes the lease from the owner that had this epoch: the caller knows that it is dead.
    pub displaces: Option<u64>,
}

/// What a claim found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Ours. `waiting` is the number of tickets in the session's inbox at that moment.
    Granted { lease: Lease, waiting: usize },
    /// Somebody else's, and not expired.
    Held { owner: String, epoch: u64 },
}

pub trait Leases: Send + Sync {
    /// Takes the lease if it is free, expired, already ours (its epoch stays), or displaced. The session must exist.
    fn claim(&self, key: &SessionKey, claim: Claim) -> Pending<'_, Claimed>;

    /// Moves the end of a lease that is still ours; [`Error::Fenced`](crate::Error::Fenced) if it is not.
    fn renew(&self, lease: &Lease, ttl: Duration) -> Pending<'_, ()>;

    /// Gives it back. Nothing happens if it is no longer ours.
    fn release(&self, lease: &Lease) -> Pending<'_, ()>;

    /// The sessions that somebody has the lease of, expired or not, or that tickets wait in: after a crash, all that was left
    /// in the middle of something.
    fn left(&self) -> Pending<'_, Vec<SessionKey>>;
}
