//! The runs that are in memory: those that go on, and the last of those that are over. Whatever is asked of one session or of one
//! user costs what they have, and not what all have.

use super::live::{End, Live, LiveEnd};
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
pub struct Tally {
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Of runs that are over, partial ones too.
    pub events: u64,
}

impl Tally {
    fn count(&mut self, end: Option<&LiveEnd>, events: u64) {
        self.events += events;
        match end {
            // Another process counts it.
            Some(LiveEnd::Moved) => {}
            Some(LiveEnd::Over(End::Done)) => self.done += 1,
            Some(LiveEnd::Over(End::Cancelled)) => self.cancelled += 1,
            Some(LiveEnd::Over(End::NotFound | End::Unasked { .. } | End::Failed { .. })) | None => {
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
pub(super) struct Shelf(Arc<Mutex<Kept>>);

/// A run that is over.
struct Finished {
    key: RunKey,
    /// About how many bytes it keeps.
    size: usize,
    live: Weak<Live>,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<SessionKey, HashMap<String, Arc<Live>>>,
    running: usize,
    /// Those that are over, oldest first.
    finished: VecDeque<Finished>,
    /// About how many bytes they keep.
    bytes: usize,
    /// Permits held by each user.
    permits: HashMap<String, usize>,
    tally: Tally,
}

impl Shelf {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, key: &RunKey, live: &Arc<Live>) {
        let mut kept = self.kept();
        kept.running += 1;
        kept.sessions.entry(key.session.clone()).or_default().insert(key.id.clone(), Arc::clone(live));
    }

    pub(super) fn find(&self, session: &SessionKey, id: &str) -> Option<Arc<Live>> {
        self.kept().sessions.get(session)?.get(id).cloned()
    }

    /// Those of a session that are not over.
    pub(super) fn running_in(&self, session: &SessionKey) -> Vec<Arc<Live>> {
        let kept = self.kept();
        let all = kept.sessions.get(session).into_iter().flat_map(HashMap::values);
        all.filter(|live| live.end().is_none()).map(Arc::clone).collect()
    }

    pub(super) fn running(&self) -> usize {
        self.kept().running
    }

    pub(super) fn tally(&self) -> Tally {
        self.kept().tally
    }

    /// A run that is over stays for a while, and makes the oldest leave.
    pub(super) fn put_away(&self, key: RunKey, live: &Arc<Live>) {
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
        Some(RunPermit { shelf: self.clone(), user: user.to_owned() })
    }
}

impl Kept {
    /// A run that waited for a person may be running again, in memory of its own: that one stays.
    fn remove(&mut self, Finished { key, live, .. }: &Finished) {
        let Some(runs) = self.sessions.get_mut(&key.session) else { return };
        let is_same = |current: &Arc<Live>| Weak::as_ptr(live) == Arc::as_ptr(current);
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
    shelf: Shelf,
    user: String,
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.shelf.kept().leave(&self.user);
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
    use crate::runs::live::Place;
    use tokio_util::sync::CancellationToken;

    fn key(session: &str, id: usize) -> RunKey {
        RunKey { session: SessionKey::new("app", "ann", session), id: id.to_string() }
    }

    fn live() -> Arc<Live> {
        Arc::new(Live::new(CancellationToken::new(), Place::default()))
    }

    #[test]
    fn a_user_holds_a_limited_number_of_permits_and_drop_releases_them() {
        let shelf = Shelf::default();
        let (first, second) = (shelf.acquire_permit("ann", 2), shelf.acquire_permit("ann", 2));
        assert!(first.is_some() && second.is_some() && shelf.acquire_permit("ann", 2).is_none());
        assert!(shelf.acquire_permit("bob", 2).is_some(), "each has its own");
        drop(first);
        assert!(shelf.acquire_permit("ann", 2).is_some());
        drop(second);
        assert!(shelf.kept().permits.is_empty(), "nothing is kept of those who have none");
    }

    #[test]
    fn the_last_runs_that_are_over_stay_and_nothing_else_does() {
        let shelf = Shelf::default();
        let going_on = live();
        shelf.add(&key("goes on", 0), &going_on);
        for number in 0..FINISHED + 10 {
            let (key, live) = (key(&number.to_string(), number), live());
            shelf.add(&key, &live);
            live.finish(&Ok(()), false);
            shelf.put_away(key, &live);
        }
        assert_eq!(shelf.running(), 1);
        assert_eq!(shelf.running_in(&key("goes on", 0).session).len(), 1);
        assert!(shelf.running_in(&key("20", 20).session).is_empty());
        assert!(shelf.find(&key("20", 20).session, "20").is_some());
        assert!(shelf.find(&key("9", 9).session, "9").is_none());
        assert_eq!(shelf.kept().sessions.len(), FINISHED + 1);
    }
    #[test]
    fn a_run_that_continues_is_not_evicted_with_its_earlier_part() {
        let shelf = Shelf::default();
        let (waited, continued) = (live(), live());
        let key_of = |number| key("s", number);
        shelf.add(&key_of(0), &waited);
        waited.finish(&Ok(()), false);
        shelf.put_away(key_of(0), &waited);
        shelf.add(&key_of(0), &continued);
        for number in 1..=FINISHED {
            let live = live();
            shelf.add(&key_of(number), &live);
            live.finish(&Ok(()), false);
            shelf.put_away(key_of(number), &live);
        }
        let found = shelf.find(&key_of(0).session, "0");
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &continued)));
    }
}
