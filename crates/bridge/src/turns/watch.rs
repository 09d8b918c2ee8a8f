//! Detects gone owners. A store whose processes have leases, PostgreSQL, says which have expired. SQLite recognises a
//! dead process at once. There a process that exists but makes no
//! progress (stopped, swapped out, hung) is gone after ten seconds without a heartbeat, counted only while the store
//! accepts writes. No clocks are compared between processes: a clock step, a suspended machine or a long write lock
//! displaces no owner.

use super::heartbeat::INTERVAL;
use lock::LockExt;
use session::{GoneOwner, Liveness, OwnerClaim, OwnerStatus, Store};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;

/// How long an owner may go without a heartbeat.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// Maximum time that counts between two observations: a longer gap means that this process or the store was stalled.
const LONGEST_GAP: Duration = INTERVAL;

pub(super) struct OwnerWatch {
    store: Arc<dyn Store>,
    observed: Mutex<Observed>,
    /// One observation at a time.
    observing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Observed {
    processes: HashMap<String, Silence>,
    /// Processes whose lease has expired, by the clock of the store.
    expired: HashSet<String>,
    last: Option<Instant>,
}

/// How long a process has sent no heartbeat.
#[derive(Clone, Copy, Debug)]
struct Silence {
    beats: u64,
    lasted: Duration,
}

impl OwnerWatch {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, observed: Mutex::default(), observing: tokio::sync::Mutex::default() }
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.locked()
    }

    /// Whether an owner is dead, or its lease has expired, or it has been silent for [`SILENCE`] as of the last observation.
    pub(super) fn is_gone(&self, owner: &str) -> bool {
        if self.store.liveness(owner) == Liveness::Dead {
            return true;
        }
        let (observed, process) = (self.observed(), OwnerClaim::process_of(owner));
        let silence = observed.processes.get(process);
        observed.expired.contains(process) || silence.is_some_and(|silence| silence.lasted >= SILENCE)
    }

    /// The gone owners of open runs.
    pub(super) async fn gone(&self) -> session::Result<Vec<GoneOwner>> {
        let owners = self.store.owners().await?;
        let gone = |OwnerStatus { name, beats, is_expired }: OwnerStatus| {
            if self.store.liveness(&name) == Liveness::Dead {
                return Some(GoneOwner { name, if_beats: None });
            }
            let is_gone = is_expired.unwrap_or_else(|| self.is_gone(&name));
            is_gone.then_some(GoneOwner { name, if_beats: Some(beats) })
        };
        Ok(owners.into_iter().filter_map(gone).collect())
    }

    /// Observes the heartbeats of other processes, at most once per interval, however many callers there are.
    pub(super) async fn observe(&self) -> session::Result<()> {
        let Ok(_observing) = self.observing.try_lock() else { return Ok(()) };
        let is_recent = |last: Instant| last.elapsed() < INTERVAL / 2;
        if self.observed().last.is_some_and(is_recent) {
            return Ok(());
        }
        let own = self.store.claim_owner()?;
        let own = OwnerClaim::process_of(own.name());
        let (mut beats, mut expired, mut is_alone) = (HashMap::new(), HashSet::new(), true);
        for owner in self.store.owners().await? {
            let process = OwnerClaim::process_of(&owner.name);
            if process == own {
                continue;
            }
            is_alone = false;
            match owner.is_expired {
                None => drop(beats.insert(process.to_owned(), owner.beats)),
                Some(true) => drop(expired.insert(process.to_owned())),
                Some(false) => {}
            }
        }
        if is_alone {
            *self.observed() = Observed::default();
            return Ok(());
        }
        self.observed().expired = expired;
        // A successful write of this process proves that the others could have written, too.
        self.store.heartbeat().await?;
        self.observed().add(&beats, Instant::now());
        Ok(())
    }
}

impl Observed {
    fn add(&mut self, beats: &HashMap<String, u64>, now: Instant) {
        let gap = self.last.replace(now).map_or(Duration::ZERO, |last| now - last).min(LONGEST_GAP);
        self.processes.retain(|process, _| beats.contains_key(process));
        for (process, beats) in beats {
            let silence = self
                .processes
                .entry(process.clone())
                .or_insert(Silence { beats: *beats, lasted: Duration::ZERO });
            if silence.beats == *beats {
                silence.lasted += gap;
            } else {
                *silence = Silence { beats: *beats, lasted: Duration::ZERO };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(number: u64) -> HashMap<String, u64> {
        HashMap::from([("p".to_owned(), number)])
    }

    #[test]
    fn silence_grows_only_while_it_is_observed() {
        let mut observed = Observed::default();
        let start = Instant::now();
        let lasted = |observed: &Observed| observed.processes["p"].lasted;
        observed.add(&beats(1), start);
        assert_eq!(lasted(&observed), Duration::ZERO);
        observed.add(&beats(1), start + Duration::from_secs(1));
        assert_eq!(lasted(&observed), Duration::from_secs(1));
        // The machine was suspended, or the store was locked: an hour counts as one interval.
        observed.add(&beats(1), start + Duration::from_hours(1));
        assert_eq!(lasted(&observed), Duration::from_secs(1) + LONGEST_GAP);
        observed.add(&beats(2), start + Duration::from_hours(2));
        assert_eq!(lasted(&observed), Duration::ZERO);
        observed.add(&HashMap::new(), start + Duration::from_hours(3));
        assert!(observed.processes.is_empty());
    }
}
