//! The session cache (LRU): a session stays in memory after its turn, so that the next turn need not read it.
//!
//! **Invariant.** A cached session is validated before use. A turn that starts from it names the cached epoch in its
//! first commit, and the store refuses the commit if the session has changed since; a reader compares the cached copy
//! with the session row first.

use crate::{store::session::SessionAdapter, view::budget::Budget};
use adk::session::SessionKey;
use bounded_cache::{BoundedCache, Limits};
use lock::LockExt;
use session::SessionRow;
use std::sync::Mutex;

/// Default capacity in bytes: about 64 full windows of short messages, or thousands of short sessions.
pub const DEFAULT_CACHE_BYTES: usize = 80 * 1024 * 1024;
/// The part of the capacity that one session may use. Larger sessions are not cached: they would evict those of other users.
const SESSION_SHARE: usize = 8;
/// Approximate size of a session without its events and state.
const FRAME: usize = 4 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct CachedSession {
    pub(crate) session: SessionAdapter,
    /// The epoch of the turn that cached it.
    pub(crate) epoch: u64,
}

impl CachedSession {
    /// Whether the cached copy equals the stored session. The creation time distinguishes a deleted and recreated
    /// session from the cached one.
    pub(crate) fn matches(&self, row: &SessionRow) -> bool {
        let SessionAdapter { last_seq, created_at, .. } = &self.session;
        *last_seq == row.last_seq && created_at.to_bits() == row.created_at.to_bits()
    }

    fn weight(&self) -> usize {
        let Self { session, .. } = self;
        FRAME + session.events.bytes() + session.state.bytes() + session.prefixes.bytes()
    }
}

#[derive(Debug)]
pub(crate) struct SessionCache {
    sessions: Mutex<BoundedCache<SessionKey, CachedSession>>,
    max_session_bytes: usize,
}

impl SessionCache {
    pub(crate) fn new(bytes: usize) -> Self {
        let sessions = Mutex::new(BoundedCache::new(Limits::weight(bytes)));
        Self { sessions, max_session_bytes: bytes / SESSION_SHARE }
    }

    pub(crate) fn contains(&self, key: &SessionKey) -> bool {
        self.sessions.locked().contains(key)
    }

    /// Clones the cached session and leaves it in the cache.
    pub(crate) fn get(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        let cached = self.sessions.locked().peek(key).cloned();
        cached.filter(|cached| cached.session.events.fits(budget))
    }

    /// Removes the session for the duration of a turn, which inserts it again at its end.
    pub(crate) fn remove(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        let cached = self.sessions.locked().remove(key);
        cached.filter(|cached| cached.session.events.fits(budget))
    }

    pub(crate) fn insert(&self, cached: CachedSession) {
        let (key, weight) = (cached.session.key.clone(), cached.weight());
        if weight > self.max_session_bytes {
            return self.evict(&key);
        }
        let evicted = self.sessions.locked().insert(key, cached, weight);
        // Dropped after the lock is released.
        drop(evicted);
    }

    pub(crate) fn evict(&self, key: &SessionKey) {
        let evicted = self.sessions.locked().remove(key);
        drop(evicted);
    }
}
