//! Cache of token counts. Texts of sessions in memory cache their own count; calls, results and texts that are read
//! again are counted for each request, and most of them were counted for the request before.

use bounded_cache::{BoundedCache, Limits};
use foldhash::quality::FixedState;
use lock::LockExt;
use std::{hash::BuildHasher, sync::Mutex};

/// Minimum length: shorter texts are counted faster than looked up.
const MIN_BYTES: usize = 64;
/// Memory stays below about half a megabyte.
const ENTRIES: usize = 8192;

type Memo = BoundedCache<u64, u32>;

static MEMO: Mutex<Option<Memo>> = Mutex::new(None);

/// Returns the cached count of a text, computed by `count` on first use. Keys are 64-bit hashes: on a collision one
/// text gets the estimate of the other.
pub(super) fn count_cached(text: &str, count: impl FnOnce(&str) -> u32) -> u32 {
    if text.len() < MIN_BYTES {
        return count(text);
    }
    let hash = FixedState::default().hash_one(text);
    let known = with_memo(|memo| memo.get(&hash).copied());
    known.unwrap_or_else(|| {
        let counted = count(text);
        with_memo(|memo| memo.insert(hash, counted, 0));
        counted
    })
}

fn with_memo<T>(work: impl FnOnce(&mut Memo) -> T) -> T {
    work(MEMO.locked().get_or_insert_with(|| BoundedCache::new(Limits::entries(ENTRIES))))
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
}
