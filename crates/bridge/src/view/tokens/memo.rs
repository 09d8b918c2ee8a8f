//! Counts that were made lately. A text of a session in memory carries its own; calls, their answers, and what is read anew
//! are weighed before each request, and most of them were weighed when they were stored or for the request before.

use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    mem,
    sync::{Mutex, PoisonError},
};

/// Shorter texts are counted faster than found.
const WORTH_KEEPING: usize = 64;
/// After so many new counts the older half is forgotten: at most about half a megabyte is held.
const GENERATION: usize = 8192;

#[derive(Default)]
struct Memo {
    young: HashMap<u64, u32, FixedState>,
    old: HashMap<u64, u32, FixedState>,
}

static MEMO: Mutex<Option<Memo>> = Mutex::new(None);

/// The count of a text, made by `count` unless it is known. Texts are told apart by 64 bits of hash: should two ever share
/// them, one gets the other's estimate.
pub(super) fn of(text: &str, count: impl FnOnce(&str) -> u32) -> u32 {
    if text.len() < WORTH_KEEPING {
        return count(text);
    }
    let hash = FixedState::default().hash_one(text);
    let known = with(|memo| memo.find(hash));
    known.unwrap_or_else(|| {
        let counted = count(text);
        with(|memo| memo.keep(hash, counted));
        counted
    })
}

fn with<T>(work: impl FnOnce(&mut Memo) -> T) -> T {
    work(MEMO.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Memo {
    fn find(&mut self, hash: u64) -> Option<u32> {
        self.young.get(&hash).copied().or_else(|| {
            let counted = self.old.remove(&hash)?;
            self.keep(hash, counted);
            Some(counted)
        })
    }

    fn keep(&mut self, hash: u64, counted: u32) {
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
    fn a_long_text_is_counted_once() {
        let text = "a text that only this test counts ".repeat(10);
        assert_eq!(of(&text, |_| 7), 7);
        assert_eq!(of(&text, |_| 8), 7);
        assert_eq!(of("short", |_| 7), 7);
        assert_eq!(of("short", |_| 8), 8);
    }

    #[test]
    fn what_is_used_outlives_what_is_not() {
        let mut memo = Memo::default();
        memo.keep(0, 1);
        memo.keep(u64::MAX, 1);
        for number in 1..3 * GENERATION as u64 {
            memo.keep(number, 1);
            memo.find(0);
        }
        assert_eq!((memo.find(0), memo.find(u64::MAX)), (Some(1), None));
        assert!(memo.young.len() + memo.old.len() <= 2 * GENERATION);
    }
}
