//! Owners of runs: one name per claim of a process, so that an owner that is gone can be recognised.
//!
//! A name is `process#claim`. A backend knows whether a process is alive (SQLite: by an advisory lock on a file beside the
//! database); this module knows which claims of this process are still held.

use crate::{Pending, Result};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The claims of this process that are held.
static HELD: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static CLAIMS: AtomicU64 = AtomicU64::new(0);

fn held() -> MutexGuard<'static, BTreeSet<u64>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One claim of this process. The owner that it names counts as alive until this value is dropped.
#[derive(Debug)]
pub struct Owner {
    name: String,
    claim: u64,
}

impl Owner {
    /// A new claim of the process that the backend calls `process`.
    pub fn claim(process: &str) -> Self {
        let claim = CLAIMS.fetch_add(1, Ordering::Relaxed);
        held().insert(claim);
        Self { name: format!("{process}#{claim}"), claim }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process that an owner's name belongs to.
    pub fn process_of(name: &str) -> &str {
        name.split_once('#').map_or(name, |(process, _)| process)
    }

    /// Whether the claim of a name of this process is still held.
    pub fn is_held(name: &str) -> bool {
        let claim = name.split_once('#').and_then(|(_, claim)| claim.parse().ok());
        claim.is_some_and(|claim| held().contains(&claim))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        held().remove(&self.claim);
    }
}

/// What the backend knows of another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its process has ended, or its claim was dropped.
    Dead,
    /// Its process exists. It may be stopped: then its heartbeat stands still.
    Alive,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// How many runs of this process another owner has taken over so far.
    pub displaced: u64,
}

/// An owner that is responsible for at least one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerStatus {
    pub name: String,
    /// How often its process has sent a heartbeat.
    pub beats: u64,
}

pub trait Owners: Send + Sync {
    /// Registers a claim of this process. The first one of a process acquires what proves that it is alive.
    fn claim_owner(&self) -> Result<Owner>;

    /// Whether an owner is alive. Blocks for a system call at most.
    fn liveness(&self, owner: &str) -> Liveness;

    /// Stores that this process is at work: a write, so that its success also proves that the store accepts writes.
    fn heartbeat(&self) -> Pending<'_, Heartbeat>;

    /// The owners of all runs that are queued or running.
    fn owners(&self) -> Pending<'_, Vec<OwnerStatus>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_held_until_it_is_dropped() {
        let owner = Owner::claim("process");
        let name = owner.name().to_owned();
        assert_eq!(Owner::process_of(&name), "process");
        assert!(Owner::is_held(&name));
        drop(owner);
        assert!(!Owner::is_held(&name));
    }

    #[test]
    fn names_without_a_claim_are_not_held() {
        assert!(!Owner::is_held("process") && !Owner::is_held("process#x"));
        assert_eq!(Owner::process_of("machine/boot/1/2"), "machine/boot/1/2");
    }
}
