//! Sessions that were used lately: their events stay in memory, so that the next turn need not read them again.
//!
//! What is kept is used only if the store says, in the same read that brings state and facts, that nothing was appended
//! since: another process may have had the session in the meantime.

use crate::{budget::Budget, events::EventsAdapter};
use adk::session::SessionKey;
use session::{Seq, SessionRow};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// How many sessions are kept; each holds about one window of history.
const SESSIONS: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) events: EventsAdapter,
    pub(crate) last_seq: Seq,
    /// A session that was deleted and made again is another one.
    pub(crate) created_at: f64,
}

impl Kept {
    pub(crate) fn is_still(&self, row: &SessionRow) -> bool {
        self.last_seq == row.last_seq && self.created_at.to_bits() == row.created_at.to_bits()
    }

    /// What has grown much beyond the budget is read anew: it then begins where the budget says.
    fn is_in(&self, budget: Budget) -> bool {
        let most = u64::from(budget.tokens()) * 5 / 4;
        self.events.tokens() <= most && budget.max_messages().is_none_or(|most| self.events.len() <= most)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    kept: HashMap<SessionKey, (u64, Kept)>,
    uses: u64,
}

impl Recent {
    pub(crate) fn of(&self, key: &SessionKey, budget: Budget) -> Option<Kept> {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.uses += 1;
        let uses = shelf.uses;
        let (used, kept) = shelf.kept.get_mut(key)?;
        *used = uses;
        kept.is_in(budget).then(|| kept.clone())
    }

    pub(crate) fn keep(&self, key: &SessionKey, kept: Kept) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.uses += 1;
        let used = shelf.uses;
        shelf.kept.insert(key.clone(), (used, kept));
        if shelf.kept.len() > SESSIONS {
            let oldest = shelf.kept.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| shelf.kept.remove(&key));
        }
    }

    pub(crate) fn forget(&self, key: &SessionKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.remove(key);
    }
}
