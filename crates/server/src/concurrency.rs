//! The number of concurrent requests per key.

use lock::LockExt;
use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex},
};

/// Counts concurrent requests per key, such as a user. Clones share the counts.
#[derive(Clone)]
pub(crate) struct ConcurrencyLimiter<K> {
    /// Zero for no limit.
    limit: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Clone + Eq + Hash> ConcurrencyLimiter<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Counts one more request until the permit is dropped; `None` if the limit is reached.
    pub(crate) fn acquire(&self, key: K) -> Option<ConcurrencyPermit<K>> {
        let mut counts = self.counts.locked();
        let count = counts.entry(key.clone()).or_default();
        if self.limit > 0 && *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(ConcurrencyPermit { key, counts: Arc::clone(&self.counts) })
    }
}

impl<K> fmt::Debug for ConcurrencyLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyLimiter").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// One counted request.
pub(crate) struct ConcurrencyPermit<K: Eq + Hash> {
    key: K,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash> Drop for ConcurrencyPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.locked();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_at_most_its_limit_of_permits() {
        let limiter = ConcurrencyLimiter::new(2);
        let permits: Vec<_> = ["ann", "ann", "ann", "bob"].map(|key| limiter.acquire(key)).into();
        assert_eq!(permits.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true]);
        drop(permits);
        assert!(limiter.counts.locked().is_empty());
        assert!(limiter.acquire("ann").is_some());
        let unlimited = ConcurrencyLimiter::new(0);
        assert!((0..1000).map(|_| unlimited.acquire(1)).collect::<Vec<_>>().iter().all(Option::is_some));
    }
}
