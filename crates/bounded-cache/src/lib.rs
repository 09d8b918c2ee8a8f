//! [`BoundedCache`]: an LRU cache that is bounded by the number of its entries and by their weight.
//!
//! **Invariant.** After every call, the cache is within both limits.

use hashlink::LinkedHashMap;
use std::{borrow::Borrow, fmt, hash::Hash};

/// The limits of a [`BoundedCache`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub entries: usize,
    /// In the unit of the weights that are passed to [`BoundedCache::insert`], such as bytes.
    pub weight: usize,
}

impl Limits {
    pub const fn entries(entries: usize) -> Self {
        Self { entries, weight: usize::MAX }
    }

    pub const fn weight(weight: usize) -> Self {
        Self { entries: usize::MAX, weight }
    }
}

/// A map that evicts its least recently used entries. An entry is used when it is inserted and by
/// [`get`](BoundedCache::get).
pub struct BoundedCache<K, V> {
    limits: Limits,
    /// Least recently used first, each with its weight.
    entries: LinkedHashMap<K, (V, usize)>,
    weight: usize,
}

impl<K: Eq + Hash, V> BoundedCache<K, V> {
    /// Creates an empty cache, which does not allocate.
    pub fn new(limits: Limits) -> Self {
        Self { limits, entries: LinkedHashMap::new(), weight: 0 }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The sum of the weights.
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    /// Returns an entry and marks it as the most recently used.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.to_back(key).map(|(value, _)| &*value)
    }

    /// Returns an entry without marking it as used.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Inserts or replaces an entry, and returns what was evicted, least recently used first. An entry that is heavier than
    /// the limit evicts all others and itself.
    pub fn insert(&mut self, key: K, value: V, weight: usize) -> Vec<(K, V)> {
        self.remove(&key);
        self.weight = self.weight.saturating_add(weight);
        self.entries.insert(key, (value, weight));
        let mut evicted = Vec::new();
        while (self.entries.len() > self.limits.entries || self.weight > self.limits.weight)
            && let Some((key, (value, weight))) = self.entries.pop_front()
        {
            self.weight -= weight;
            evicted.push((key, value));
        }
        evicted
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (value, weight) = self.entries.remove(key)?;
        self.weight -= weight;
        Some(value)
    }

    /// Removes the entries that `keep` rejects.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        let Self { entries, weight, .. } = self;
        entries.retain(|_, (value, own)| {
            let is_kept = keep(value);
            *weight -= if is_kept { 0 } else { *own };
            is_kept
        });
    }

    /// The values, least recently used first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(value, _)| value)
    }
}

impl<K: Eq + Hash, V> fmt::Debug for BoundedCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedCache")
            .field("limits", &self.limits)
            .field("len", &self.len())
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cache: &BoundedCache<&'static str, u32>) -> Vec<&'static str> {
        cache.entries.keys().copied().collect()
    }

    #[test]
    fn least_recently_used_entry_is_evicted_beyond_the_number() {
        let mut cache = BoundedCache::new(Limits::entries(2));
        assert!(cache.insert("a", 1, 0).is_empty() && cache.insert("b", 2, 0).is_empty());
        assert_eq!(cache.get("a"), Some(&1));
        assert_eq!(cache.insert("c", 3, 0), [("b", 2)]);
        assert_eq!(keys(&cache), ["a", "c"]);
    }

    #[test]
    fn peek_does_not_count_as_use() {
        let mut cache = BoundedCache::new(Limits::entries(2));
        cache.insert("a", 1, 0);
        cache.insert("b", 2, 0);
        assert_eq!(cache.peek("a"), Some(&1));
        assert_eq!(cache.insert("c", 3, 0), [("a", 1)]);
    }

    #[test]
    fn entries_are_evicted_beyond_the_weight() {
        let mut cache = BoundedCache::new(Limits::weight(10));
        cache.insert("a", 1, 4);
        cache.insert("b", 2, 4);
        cache.insert("c", 3, 2);
        assert_eq!((cache.len(), cache.weight()), (3, 10));
        assert_eq!(cache.insert("d", 4, 5), [("a", 1), ("b", 2)]);
        assert_eq!((keys(&cache), cache.weight()), (vec!["c", "d"], 7));
    }

    #[test]
    fn replaced_entry_has_its_new_weight() {
        let mut cache = BoundedCache::new(Limits::weight(10));
        cache.insert("a", 1, 9);
        cache.insert("b", 2, 1);
        assert!(cache.insert("a", 3, 2).is_empty());
        assert_eq!((keys(&cache), cache.weight(), cache.remove("a")), (vec!["b", "a"], 3, Some(3)));
        assert_eq!(cache.weight(), 1);
    }

    #[test]
    fn rejected_entries_are_removed_with_their_weight() {
        let mut cache = BoundedCache::new(Limits::weight(10));
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            cache.insert(key, value, 2);
        }
        cache.retain(|value| *value != 2);
        assert_eq!((keys(&cache), cache.weight()), (vec!["a", "c"], 4));
    }

    #[test]
    fn entry_above_the_limit_is_not_cached() {
        let mut cache = BoundedCache::new(Limits::weight(10));
        cache.insert("a", 1, 1);
        assert_eq!(cache.insert("b", 2, 11), [("a", 1), ("b", 2)]);
        assert!(cache.is_empty() && cache.weight() == 0);
    }
}
