//! Cache of token counts. Texts of sessions in memory cache their own count; calls, results and texts that are read
//! again are counted for each request, and most of them were counted for the request before.

use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    mem,
    sync::{Mutex, PoisonError},
};

/// Minimum length: shorter texts are counted faster than looked up.
const MIN_BYTES: usize = 64;
/// Two-generation cache: after this many insertions the older generation is dropped. Memory stays below about half a
/// megabyte.
const GENERATION: usize = 8192;

#[derive(Default)]
struct Memo {
    young: HashMap<u64, u32, FixedState>,
    old: HashMap<u64, u32, FixedState>,
}

static MEMO: Mutex<Option<Memo>> = Mutex::new(None);

/// Returns the cached count of a text, computed by `count` on first use. Keys are 64-bit hashes: on a collision one
/// text gets the estimate of the other.
pub(super) fn count_cached(text: &str, count: impl FnOnce(&str) -> u32) -> u32 {
    if text.len() < MIN_BYTES {
        return count(text);
    }
    let hash = FixedState::default().hash_one(text);
    let known = with_memo(|memo| memo.get(hash));
    known.unwrap_or_else(|| {
        let counted = count(text);
        with_memo(|memo| memo.insert(hash, counted));
        counted
    })
}

fn with_memo<T>(work: impl FnOnce(&mut Memo) -> T) -> T {
    work(MEMO.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Memo {
    fn get(&mut self, hash: u64) -> Option<u32> {
        self.young.get(&hash).copied().or_else(|| {
            let counted = self.old.remove(&hash)?;
            self.insert(hash, counted);
            Some(counted)
        })
    }

    fn insert(&mut self, hash: u64, counted: u32) {
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(hash, counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_counted_once() {
        let text = "a text that only this test counts ".repeat(10);
        assert_eq!(count_cached(&text, |_| 7), 7);
        assert_eq!(count_cached(&text, |_| 8), 7);
        assert_eq!(count_cached("short", |_| 7), 7);
        assert_eq!(count_cached("short", |_| 8), 8);
    }

    #[test]
    fn used_entries_survive_a_generation_change() {
        let mut memo = Memo::default();
        memo.insert(0, 1);
        memo.insert(u64::MAX, 1);
        for number in 1..3 * GENERATION as u64 {
            memo.insert(number, 1);
            memo.get(0);
        }
        assert_eq!((memo.get(0), memo.get(u64::MAX)), (Some(1), None));
        assert!(memo.young.len() + memo.old.len() <= 2 * GENERATION);
    }
}
