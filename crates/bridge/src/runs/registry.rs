//! Run registry: the runs in memory, those in progress and the most recently finished. The cost of a lookup is
//! linear in the runs of the session or user.

use super::live::{LiveOutcome, LiveRun, RunOutcome};
use adk::session::SessionKey;
use bounded_cache::{BoundedCache, Limits};
use lock::LockExt;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

/// Limits for finished runs, which stay in memory for readers that reconnect: by number and by bytes.
const FINISHED: Limits = Limits { entries: 256, weight: 4 * 1024 * 1024 };

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Events of finished runs, partial events included.
    pub events: u64,
}

impl RunCounts {
    fn count(&mut self, end: Option<&LiveOutcome>, events: u64) {
        self.events += events;
        match end {
            // Counted by the process that has the run.
            Some(LiveOutcome::Moved) => {}
            Some(LiveOutcome::Over(RunOutcome::Done)) => self.done += 1,
            Some(LiveOutcome::Over(RunOutcome::Cancelled)) => self.cancelled += 1,
            Some(LiveOutcome::Over(
                RunOutcome::NotFound
                | RunOutcome::UnknownCall { .. }
                | RunOutcome::InvalidAnswer { .. }
                | RunOutcome::Failed { .. },
            ))
            | None => {
                self.failed += 1;
            }
        }
    }
}

/// The id of a run across all sessions.
#[derive(Clone)]
pub(super) struct RunKey {
    pub(super) session: SessionKey,
    pub(super) id: String,
}

#[derive(Clone, Default)]
pub(super) struct RunRegistry(Arc<Mutex<RegistryState>>);

/// A finished run.
struct Finished {
    key: RunKey,
    live: Weak<LiveRun>,
}

struct RegistryState {
    sessions: HashMap<SessionKey, HashMap<String, Arc<LiveRun>>>,
    running: usize,
    /// By number, in the order of their ends. The weight is the approximate size in bytes.
    finished: BoundedCache<u64, Finished>,
    ended: u64,
    /// Permits in use, by user.
    permits: HashMap<String, usize>,
    counts: RunCounts,
}

impl Default for RegistryState {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            running: 0,
            finished: BoundedCache::new(FINISHED),
            ended: 0,
            permits: HashMap::new(),
            counts: RunCounts::default(),
        }
    }
}

impl RunRegistry {
    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.0.locked()
    }

    pub(super) fn add(&self, key: &RunKey, live: &Arc<LiveRun>) {
        let mut state = self.state();
        state.running += 1;
        state.sessions.entry(key.session.clone()).or_default().insert(key.id.clone(), Arc::clone(live));
    }

    pub(super) fn find(&self, session: &SessionKey, id: &str) -> Option<Arc<LiveRun>> {
        self.state().sessions.get(session)?.get(id).cloned()
    }

    /// The runs of a session in progress.
    pub(super) fn running_in(&self, session: &SessionKey) -> Vec<Arc<LiveRun>> {
        let state = self.state();
        let all = state.sessions.get(session).into_iter().flat_map(HashMap::values);
        all.filter(|live| live.end().is_none()).map(Arc::clone).collect()
    }

    pub(super) fn running(&self) -> usize {
        self.state().running
    }

    pub(super) fn counts(&self) -> RunCounts {
        self.state().counts
    }

    /// Moves a run to the finished ones and evicts the oldest beyond the limits.
    pub(super) fn retire(&self, key: RunKey, live: &Arc<LiveRun>) {
        let (size, events, end) = (live.size(), live.len(), live.end());
        let mut state = self.state();
        state.running -= 1;
        state.counts.count(end.as_ref(), events);
        state.ended += 1;
        let (number, finished) = (state.ended, Finished { key, live: Arc::downgrade(live) });
        for (_, evicted) in state.finished.insert(number, finished, size) {
            state.remove(&evicted);
        }
    }

    pub(super) fn acquire_permit(&self, user: &str, max: usize) -> Option<RunPermit> {
        let mut state = self.state();
        let in_use = state.permits.get(user).copied().unwrap_or(0);
        if in_use >= max {
            return None;
        }
        state.permits.insert(user.to_owned(), in_use + 1);
        Some(RunPermit { registry: self.clone(), user: user.to_owned() })
    }
}

impl RegistryState {
    /// Removes an evicted run, unless its id is in use by a newer `LiveRun`: a run that waited for a person may be
    /// running again.
    fn remove(&mut self, Finished { key, live }: &Finished) {
        let Some(runs) = self.sessions.get_mut(&key.session) else { return };
        let is_same = |current: &Arc<LiveRun>| Weak::as_ptr(live) == Arc::as_ptr(current);
        if runs.get(&key.id).is_some_and(is_same) {
            runs.remove(&key.id);
        }
        if runs.is_empty() {
            self.sessions.remove(&key.session);
        }
    }

    fn release_permit(&mut self, user: &str) {
        let Some(in_use) = self.permits.get_mut(user) else { return };
        *in_use -= 1;
        if *in_use == 0 {
            self.permits.remove(user);
        }
    }
}

/// A user's permit for one run, acquired before the run starts and released on drop.
pub struct RunPermit {
    registry: RunRegistry,
    user: String,
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.registry.state().release_permit(&self.user);
    }
}

impl fmt::Debug for RunPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPermit").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::live::Cursor;
    use tokio_util::sync::CancellationToken;

    fn key(session: &str, id: usize) -> RunKey {
        RunKey { session: SessionKey::new("app", "ann", session), id: id.to_string() }
    }

    fn live() -> Arc<LiveRun> {
        Arc::new(LiveRun::new(CancellationToken::new(), Cursor::default()))
    }

    #[test]
    fn permits_are_limited_per_user_and_released_on_drop() {
        let registry = RunRegistry::default();
        let (first, second) = (registry.acquire_permit("ann", 2), registry.acquire_permit("ann", 2));
        assert!(first.is_some() && second.is_some() && registry.acquire_permit("ann", 2).is_none());
        assert!(registry.acquire_permit("bob", 2).is_some(), "the limit is per user");
        drop(first);
        assert!(registry.acquire_permit("ann", 2).is_some());
        drop(second);
        assert!(registry.state().permits.is_empty(), "users without permits have no entry");
    }

    #[test]
    fn most_recently_finished_runs_stay_in_the_registry() {
        let registry = RunRegistry::default();
        let in_progress = live();
        registry.add(&key("in progress", 0), &in_progress);
        for number in 0..FINISHED.entries + 10 {
            let (key, live) = (key(&number.to_string(), number), live());
            registry.add(&key, &live);
            live.finish(&Ok(()), false);
            registry.retire(key, &live);
        }
        assert_eq!(registry.running(), 1);
        assert_eq!(registry.running_in(&key("in progress", 0).session).len(), 1);
        assert!(registry.running_in(&key("20", 20).session).is_empty());
        assert!(registry.find(&key("20", 20).session, "20").is_some());
        assert!(registry.find(&key("9", 9).session, "9").is_none());
        assert_eq!(registry.state().sessions.len(), FINISHED.entries + 1);
    }

    #[test]
    fn continued_run_is_not_evicted_with_its_earlier_part() {
        let registry = RunRegistry::default();
        let (waited, continued) = (live(), live());
        let key_of = |number| key("s", number);
        registry.add(&key_of(0), &waited);
        waited.finish(&Ok(()), false);
        registry.retire(key_of(0), &waited);
        registry.add(&key_of(0), &continued);
        for number in 1..=FINISHED.entries {
            let live = live();
            registry.add(&key_of(number), &live);
            live.finish(&Ok(()), false);
            registry.retire(key_of(number), &live);
        }
        let found = registry.find(&key_of(0).session, "0");
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &continued)));
    }
}
