//! Upkeep of the store: counts the usage of earlier versions, then deletes the rows of deleted sessions. Both proceed in short
//! commits with pauses, so that turns are not held up.

use crate::store::{service::store_failed, usage};
use adk::error::ServiceError;
use session::{PurgeProgress, PurgeSlice, Store};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// The write lock is held for about this long, less than a turn takes.
const SLICE: PurgeSlice = PurgeSlice { rows: 4_096, time: Duration::from_micros(700) };
/// A pause is this many times as long as the slice before it took, waiting included: a busy store gets longer pauses.
const PAUSE_FACTOR: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// How many rows of earlier versions are read at once.
const COUNTED_ROWS: usize = 512;
/// When the store is looked at again: another process may have died during its own upkeep, or the disk may be full.
const INTERVAL: Duration = Duration::from_mins(1);

/// Does the upkeep of one store. Clones share the work.
#[derive(Clone)]
pub struct Upkeep {
    store: Arc<dyn Store>,
    wanted: Arc<Notify>,
}

impl Upkeep {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, wanted: Arc::default() }
    }

    /// Wakes [`run`](Self::run): a session was deleted.
    pub fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Does what there is to do, now and whenever it is woken. The store reports its own failures; they are retried.
    pub async fn run(self) {
        loop {
            let _ = self.clone().purge_once().await;
            let _ = tokio::time::timeout(INTERVAL, self.wanted.notified()).await;
        }
    }

    /// Does what there is to do now, with pauses.
    pub async fn purge_once(self) -> Result<(), ServiceError> {
        self.count_and_purge(PAUSE_FACTOR).await
    }

    /// Does what there is to do, without pauses.
    pub async fn finish(&self) -> Result<(), ServiceError> {
        self.count_and_purge(0).await
    }

    /// Counts the usage of rows of earlier versions, without pauses.
    pub async fn count(&self) -> Result<(), ServiceError> {
        while self.count_page().await? {}
        Ok(())
    }

    async fn count_and_purge(&self, pause: u32) -> Result<(), ServiceError> {
        loop {
            let started = Instant::now();
            if !self.count_page().await? {
                break;
            }
            rest(started, pause).await;
        }
        loop {
            let started = Instant::now();
            if self.store.purge(SLICE).await.map_err(store_failed)? == PurgeProgress::Done {
                return Ok(());
            }
            rest(started, pause).await;
        }
    }

    /// Returns `false` if everything is counted.
    async fn count_page(&self) -> Result<bool, ServiceError> {
        let Some(page) = self.store.uncounted(COUNTED_ROWS).await.map_err(store_failed)? else {
            return Ok(false);
        };
        let entries = page.rows.iter().filter_map(|row| Some((row.session, usage::entry_of_row(row)?)));
        self.store.count_page(page.range, entries.collect()).await.map_err(store_failed)?;
        Ok(true)
    }
}

async fn rest(started: Instant, factor: u32) {
    if factor > 0 {
        tokio::time::sleep((started.elapsed() * factor).max(SHORTEST_PAUSE)).await;
    }
}

impl std::fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upkeep").finish_non_exhaustive()
    }
}
