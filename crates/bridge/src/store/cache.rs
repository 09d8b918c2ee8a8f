//! LRU cache of sessions: a session stays in memory after its turn, so that the next turn need not read it.
//!
//! **Invariant.** A cached session is validated before use. A turn that starts from it names the cached epoch in its
//! first commit, and the store refuses the commit if the session has changed since; a reader compares the cached copy
//! with the session row first.

use crate::{store::session::SessionAdapter, view::budget::Budget};
use adk::session::SessionKey;
use session::SessionRow;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Capacity in bytes: more than a hundred full windows, or thousands of short sessions.
const BYTES: usize = 32 * 1024 * 1024;
/// Approximate size of a session without its events.
const FRAME: usize = 4 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct CachedSession {
    pub(crate) session: SessionAdapter,
    /// The epoch of the turn that cached it.
    pub(crate) epoch: u64,
}

impl CachedSession {
    /// Whether the cached copy equals the stored session. The creation time tells a deleted and recreated session
    /// from the cached one.
    pub(crate) fn matches(&self, row: &SessionRow) -> bool {
        let SessionAdapter { last_seq, created_at, .. } = &self.session;
        *last_seq == row.last_seq && created_at.to_bits() == row.created_at.to_bits()
    }

    /// Whether the cached events are within 5/4 of the budget. Above that, the session is read again, so that its
    /// window starts where the budget says.
    fn fits(&self, budget: Budget) -> bool {
        let events = &self.session.events;
        let most = u64::from(budget.tokens()) * 5 / 4;
        events.tokens() <= most && budget.max_messages().is_none_or(|most| events.len() <= most)
    }

    fn weight(&self) -> usize {
        FRAME + self.session.events.bytes()
    }
}

#[derive(Debug, Default)]
pub(crate) struct SessionCache(Mutex<Lru>);

#[derive(Debug, Default)]
struct Lru {
    entries: HashMap<SessionKey, (u64, CachedSession)>,
    /// Insertion order, oldest first.
    order: BTreeMap<u64, SessionKey>,
    uses: u64,
    weight: usize,
}

impl SessionCache {
    fn lru(&self) -> MutexGuard<'_, Lru> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, key: &SessionKey) -> bool {
        self.lru().entries.contains_key(key)
    }

    /// Clones the cached session and leaves it in the cache.
    pub(crate) fn get(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        let cached = self.lru().entries.get(key).map(|(_, cached)| cached.clone());
        cached.filter(|cached| cached.fits(budget))
    }

    /// Removes the session for the duration of a turn, which inserts it again at its end.
    pub(crate) fn remove(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        self.lru().remove(key).filter(|cached| cached.fits(budget))
    }

    pub(crate) fn insert(&self, cached: CachedSession) {
        self.lru().insert(cached);
    }

    pub(crate) fn evict(&self, key: &SessionKey) {
        self.lru().remove(key);
    }
}

impl Lru {
    fn insert(&mut self, cached: CachedSession) {
        let key = cached.session.key.clone();
        self.remove(&key);
        self.uses += 1;
        self.weight += cached.weight();
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, (self.uses, cached));
        while self.weight > BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &SessionKey) -> Option<CachedSession> {
        let (used, cached) = self.entries.remove(key)?;
        self.order.remove(&used);
        self.weight -= cached.weight();
        Some(cached)
    }
}
