//! Owners of runs. Each claim of a process has its own name, so that a dead owner can be recognised.
//!
//! A name is `process#claim`. The backend decides whether a process is alive: SQLite by an advisory lock on a file beside the
//! database, PostgreSQL by a lease that heartbeats renew. This module tracks which claims of this process are held.

use crate::{Pending, Result, SessionKey};
use lock::LockExt;
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// The held claims of this process.
static HELD: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static CLAIMS: AtomicU64 = AtomicU64::new(0);

fn held() -> MutexGuard<'static, BTreeSet<u64>> {
    HELD.locked()
}

/// A claim of this process. Its owner counts as alive until this value is dropped.
#[derive(Debug)]
pub struct OwnerClaim {
    name: String,
    claim: u64,
}

impl OwnerClaim {
    /// Makes a new claim. `process` is the name that the backend uses for this process.
    pub fn claim(process: &str) -> Self {
        let claim = CLAIMS.fetch_add(1, Ordering::Relaxed);
        held().insert(claim);
        Self { name: format!("{process}#{claim}"), claim }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process part of an owner's name.
    pub fn process_of(name: &str) -> &str {
        name.split_once('#').map_or(name, |(process, _)| process)
    }

    /// Whether the claim of this name is held. The name must belong to this process.
    pub fn is_held(name: &str) -> bool {
        let claim = name.split_once('#').and_then(|(_, claim)| claim.parse().ok());
        claim.is_some_and(|claim| held().contains(&claim))
    }
}

impl fmt::Display for OwnerClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for OwnerClaim {
    fn drop(&mut self) {
        held().remove(&self.claim);
    }
}

/// Whether an owner is alive, as far as the backend knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its process has ended, or its claim was dropped.
    Dead,
    /// Its process exists. It may be stopped: then it sends no heartbeats.
    Alive,
}

/// The result of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// How many runs of this process other owners have taken over.
    pub displaced: u64,
    /// Open runs of this process, by session and id, that [`request_cancel`](crate::RunStore::request_cancel) named. Reported by
    /// each heartbeat until the run has ended.
    pub cancelled: Vec<(SessionKey, String)>,
}

/// An owner of at least one queued or running run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerStatus {
    pub name: String,
    /// The number of heartbeats of its process.
    pub beats: u64,
    /// Whether the lease of its process has expired, by the clock of the store. `None` if processes of this store have no lease:
    /// then [`Owners::liveness`] and the observed heartbeats decide.
    pub is_expired: Option<bool>,
}

pub trait Owners: Send + Sync {
    /// Registers a claim of this process. In SQLite the first claim acquires the process lock.
    fn claim_owner(&self) -> Result<OwnerClaim>;

    /// Whether an owner is alive, as far as is known without reading the store. Blocks for one system call at most.
    fn liveness(&self, owner: &str) -> Liveness;

    /// Stores a heartbeat of this process, which renews its lease if it has one. Its success also proves that the store accepts writes.
    fn heartbeat(&self) -> Pending<'_, Heartbeat>;

    /// Ends the lease of this process, if it has one, so that others take over its runs at once.
    fn release(&self) -> Pending<'_, ()>;

    /// The owners of all queued and running runs.
    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_held_until_it_is_dropped() {
        let owner = OwnerClaim::claim("process");
        let name = owner.name().to_owned();
        assert_eq!(OwnerClaim::process_of(&name), "process");
        assert!(OwnerClaim::is_held(&name));
        drop(owner);
        assert!(!OwnerClaim::is_held(&name));
    }

    #[test]
    fn names_without_a_claim_are_not_held() {
        assert!(!OwnerClaim::is_held("process") && !OwnerClaim::is_held("process#x"));
        assert_eq!(OwnerClaim::process_of("machine/boot/1/2"), "machine/boot/1/2");
    }
}
