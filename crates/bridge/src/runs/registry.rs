//! The runs that are in memory: those that go on, and the last of those that are over. Whatever is asked of one session or of one
//! user costs what they have, and not what all have.

use super::live::{LiveOutcome, LiveRun, RunOutcome};
use adk::session::SessionKey;
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// Runs that are over stay in memory for readers that come back: so many of them, and so many bytes.
const FINISHED: usize = 256;
const FINISHED_BYTES: usize = 4 * 1024 * 1024;

/// What has happened since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Of runs that are over, partial ones too.
    pub events: u64,
}

impl RunCounts {
    fn count(&mut self, end: Option<&LiveOutcome>, events: u64) {
        self.events += events;
        match end {
            // Another process counts it.
            Some(LiveOutcome::Moved) => {}
            Some(LiveOutcome::Over(RunOutcome::Done)) => self.done += 1,
            Some(LiveOutcome::Over(RunOutcome::Cancelled)) => self.cancelled += 1,
            Some(LiveOutcome::Over(
                RunOutcome::NotFound | RunOutcome::Unasked { .. } | RunOutcome::Failed { .. },
            ))
            | None => {
                self.failed += 1;
            }
        }
    }
}

/// A run among all sessions.
#[derive(Clone)]
pub(super) struct RunKey {
    pub(super) session: SessionKey,
    pub(super) id: String,
}

#[derive(Clone, Default)]
pub(super) struct RunRegistry(Arc<Mutex<RegistryState>>);

/// A run that is over.
struct Finished {
    key: RunKey,
    /// About how many bytes it keeps.
    size: usize,
    live: Weak<LiveRun>,
}

#[derive(Default)]
struct RegistryState {
    sessions: HashMap<SessionKey, HashMap<String, Arc<LiveRun>>>,
    running: usize,
    /// Those that are over, oldest first.
    finished: VecDeque<Finished>,
    /// About how many bytes they keep.
    bytes: usize,
    /// Permits held by each user.
    permits: HashMap<String, usize>,
    tally: RunCounts,
}

impl RunRegistry {
    fn kept(&self) -> MutexGuard<'_, RegistryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, key: &RunKey, live: &Arc<LiveRun>) {
        let mut kept = self.kept();
        kept.running += 1;
        kept.sessions.entry(key.session.clone()).or_default().insert(key.id.clone(), Arc::clone(live));
    }

    pub(super) fn find(&self, session: &SessionKey, id: &str) -> Option<Arc<LiveRun>> {
        self.kept().sessions.get(session)?.get(id).cloned()
    }

    /// Those of a session that are not over.
    pub(super) fn running_in(&self, session: &SessionKey) -> Vec<Arc<LiveRun>> {
        let kept = self.kept();
        let all = kept.sessions.get(session).into_iter().flat_map(HashMap::values);
        all.filter(|live| live.end().is_none()).map(Arc::clone).collect()
    }

    pub(super) fn running(&self) -> usize {
        self.kept().running
    }

    pub(super) fn tally(&self) -> RunCounts {
        self.kept().tally
    }

    /// A run that is over stays for a while, and makes the oldest leave.
    pub(super) fn put_away(&self, key: RunKey, live: &Arc<LiveRun>) {
        let (size, events, end) = (live.size(), live.len(), live.end());
        let mut kept = self.kept();
        kept.running -= 1;
        kept.tally.count(end.as_ref(), events);
        kept.bytes += size;
        kept.finished.push_back(Finished { key, size, live: Arc::downgrade(live) });
        while kept.finished.len() > FINISHED || kept.bytes > FINISHED_BYTES {
            let Some(oldest) = kept.finished.pop_front() else { break };
            kept.bytes -= oldest.size;
            kept.remove(&oldest);
        }
    }

    pub(super) fn acquire_permit(&self, user: &str, most: usize) -> Option<RunPermit> {
        let mut kept = self.kept();
        let taken = kept.permits.get(user).copied().unwrap_or(0);
        if taken >= most {
            return None;
        }
        kept.permits.insert(user.to_owned(), taken + 1);
        Some(RunPermit { registry: self.clone(), user: user.to_owned() })
    }
}

impl RegistryState {
    /// A run that waited for a person may be running again, in memory of its own: that one stays.
    fn remove(&mut self, Finished { key, live, .. }: &Finished) {
        let Some(runs) = self.sessions.get_mut(&key.session) else { return };
        let is_same = |current: &Arc<LiveRun>| Weak::as_ptr(live) == Arc::as_ptr(current);
        if runs.get(&key.id).is_some_and(is_same) {
            runs.remove(&key.id);
        }
        if runs.is_empty() {
            self.sessions.remove(&key.session);
        }
    }

    fn leave(&mut self, user: &str) {
        let Some(taken) = self.permits.get_mut(user) else { return };
        *taken -= 1;
        if *taken == 0 {
            self.permits.remove(user);
        }
    }
}

/// A user's right to one more run, acquired before the run starts and released on drop.
pub struct RunPermit {
    registry: RunRegistry,
    user: String,
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.registry.kept().leave(&self.user);
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
    fn a_user_holds_a_limited_number_of_permits_and_drop_releases_them() {
        let registry = RunRegistry::default();
        let (first, second) = (registry.acquire_permit("ann", 2), registry.acquire_permit("ann", 2));
        assert!(first.is_some() && second.is_some() && registry.acquire_permit("ann", 2).is_none());
        assert!(registry.acquire_permit("bob", 2).is_some(), "each has its own");
        drop(first);
        assert!(registry.acquire_permit("ann", 2).is_some());
        drop(second);
        assert!(registry.kept().permits.is_empty(), "nothing is kept of those who have none");
    }

    #[test]
    fn the_last_runs_that_are_over_stay_and_nothing_else_does() {
        let registry = RunRegistry::default();
        let going_on = live();
        registry.add(&key("goes on", 0), &going_on);
        for number in 0..FINISHED + 10 {
            let (key, live) = (key(&number.to_string(), number), live());
            registry.add(&key, &live);
            live.finish(&Ok(()), false);
            registry.put_away(key, &live);
        }
        assert_eq!(registry.running(), 1);
        assert_eq!(registry.running_in(&key("goes on", 0).session).len(), 1);
        assert!(registry.running_in(&key("20", 20).session).is_empty());
        assert!(registry.find(&key("20", 20).session, "20").is_some());
        assert!(registry.find(&key("9", 9).session, "9").is_none());
        assert_eq!(registry.kept().sessions.len(), FINISHED + 1);
    }
    #[test]
    fn a_run_that_continues_is_not_evicted_with_its_earlier_part() {
        let registry = RunRegistry::default();
        let (waited, continued) = (live(), live());
        let key_of = |number| key("s", number);
        registry.add(&key_of(0), &waited);
        waited.finish(&Ok(()), false);
        registry.put_away(key_of(0), &waited);
        registry.add(&key_of(0), &continued);
        for number in 1..=FINISHED {
            let live = live();
            registry.add(&key_of(number), &live);
            live.finish(&Ok(()), false);
            registry.put_away(key_of(number), &live);
        }
        let found = registry.find(&key_of(0).session, "0");
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &continued)));
    }
}
