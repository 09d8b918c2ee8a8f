//! Sessions that were used lately: they stay in memory as their last turn left them, so that the next one need not read them.
//!
//! **Invariant.** What is kept is never trusted by itself. A turn that begins with it says so in its first step, and the
//! store refuses that step if anything happened to the session since; whoever stores nothing asks the store first.

use crate::{store::session::SessionAdapter, view::budget::Budget};
use adk::session::SessionKey;
use session::SessionRow;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How much of all sessions is kept: more than a hundred full windows, or thousands of short sessions.
const BYTES: usize = 32 * 1024 * 1024;
/// About what a session takes beside its events.
const FRAME: usize = 4 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct CachedSession {
    pub(crate) session: SessionAdapter,
    /// The number of the turn that left it so.
    pub(crate) epoch: u64,
}

impl CachedSession {
    /// A session that was deleted and made again is another one.
    pub(crate) fn is_still(&self, row: &SessionRow) -> bool {
        let SessionAdapter { last_seq, created_at, .. } = &self.session;
        *last_seq == row.last_seq && created_at.to_bits() == row.created_at.to_bits()
    }

    /// What has grown much beyond the budget is read anew: it then begins where the budget says.
    fn is_in(&self, budget: Budget) -> bool {
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
    kept: HashMap<SessionKey, (u64, CachedSession)>,
    /// By when they were kept, the oldest first.
    order: BTreeMap<u64, SessionKey>,
    uses: u64,
    weight: usize,
}

impl SessionCache {
    fn lru(&self) -> MutexGuard<'_, Lru> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn holds(&self, key: &SessionKey) -> bool {
        self.lru().kept.contains_key(key)
    }

    /// A look at it, which leaves it where it is.
    pub(crate) fn of(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        let kept = self.lru().kept.get(key).map(|(_, kept)| kept.clone());
        kept.filter(|kept| kept.is_in(budget))
    }

    /// For a turn, which will keep it again at its end.
    pub(crate) fn take(&self, key: &SessionKey, budget: Budget) -> Option<CachedSession> {
        self.lru().take(key).filter(|kept| kept.is_in(budget))
    }

    pub(crate) fn keep(&self, kept: CachedSession) {
        self.lru().keep(kept);
    }

    pub(crate) fn forget(&self, key: &SessionKey) {
        self.lru().take(key);
    }
}

impl Lru {
    fn keep(&mut self, kept: CachedSession) {
        let key = kept.session.key.clone();
        self.take(&key);
        self.uses += 1;
        self.weight += kept.weight();
        self.order.insert(self.uses, key.clone());
        self.kept.insert(key, (self.uses, kept));
        while self.weight > BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.take(&oldest);
        }
    }

    fn take(&mut self, key: &SessionKey) -> Option<CachedSession> {
        let (used, kept) = self.kept.remove(key)?;
        self.order.remove(&used);
        self.weight -= kept.weight();
        Some(kept)
    }
}
