//! The search index: contentless FTS5 over terms that were segmented before.
//!
//! | module | contents |
//! |---|---|
//! | `slice` | finds rows that are not indexed, and indexes them |
//! | `query` | finds and scores documents |
//!
//! **Invariants.** The index of a session and its mark change in one transaction, and only from the mark that the slice was
//! read at, so any number of processes index each row once. A slice is small, and its rows are read and segmented outside of
//! the write transaction.

mod query;
mod slice;

use super::SqliteStore;
use crate::{
    Error, Pending, SessionKey,
    search::{IndexProgress, SearchQuery, SearchResults, SessionSearch},
};
use lock::LockExt;
use slice::SlicePlan;
pub(super) use slice::{delete_documents, delete_unused_scope};
use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// Above this number of changed sessions, all sessions are looked at instead.
const MAX_CHANGED: usize = 4096;

/// What this process knows of the lag of the index.
#[derive(Debug)]
pub(super) struct IndexLag {
    work: Mutex<IndexWork>,
    changed: Notify,
    /// Held while a slice is indexed.
    indexing: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct IndexWork {
    /// A pass over all sessions has reached this session.
    pass: Option<i64>,
    /// Sessions with commits of this process.
    changed: BTreeSet<SessionKey>,
}

impl Default for IndexLag {
    /// Begins with a pass: what was indexed before is not known.
    fn default() -> Self {
        let work = IndexWork { pass: Some(0), changed: BTreeSet::new() };
        Self { work: Mutex::new(work), changed: Notify::new(), indexing: tokio::sync::Mutex::new(()) }
    }
}

impl IndexLag {
    /// Called after a commit.
    pub(super) fn add(&self, key: &SessionKey) {
        let mut work = self.work.locked();
        // A pass that has not begun finds the session anyway.
        if work.pass == Some(0) || work.changed.contains(key) {
            return;
        }
        work.changed.insert(key.clone());
        if work.changed.len() > MAX_CHANGED {
            *work = IndexWork { pass: Some(0), changed: BTreeSet::new() };
        }
        drop(work);
        self.changed.notify_one();
    }

    fn restart(&self) {
        *self.work.locked() = IndexWork { pass: Some(0), changed: BTreeSet::new() };
        self.changed.notify_one();
    }

    fn is_empty(&self) -> bool {
        let work = self.work.locked();
        work.pass.is_none() && work.changed.is_empty()
    }

    /// Takes the work for one slice.
    fn take(&self) -> TakenWork<'_> {
        let mut work = self.work.locked();
        let taken = IndexWork { pass: mem::take(&mut work.pass), changed: mem::take(&mut work.changed) };
        TakenWork { lag: self, rest: Some(taken) }
    }

    fn put_back(&self, rest: IndexWork) {
        let mut work = self.work.locked();
        work.changed.extend(rest.changed);
        work.pass = match (work.pass, rest.pass) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Work that is put back on drop: if the slice fails or its future is dropped, all of it remains.
struct TakenWork<'a> {
    lag: &'a IndexLag,
    rest: Option<IndexWork>,
}

impl Drop for TakenWork<'_> {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.lag.put_back(rest);
        }
    }
}

impl SessionSearch for SqliteStore {
    fn search(&self, query: SearchQuery) -> Pending<'_, SearchResults> {
        Box::pin(async move {
            // The work of a slice is not part of the lag while it is indexed.
            let is_indexing = self.db.index_lag.indexing.try_lock().is_err();
            let is_complete = !is_indexing && self.db.index_lag.is_empty();
            let hits = self.db.readers.read(move |conn| query::search(conn, &query)).await?;
            Ok(SearchResults { hits, is_complete })
        })
    }

    fn add_to_memory(&self, key: &SessionKey) -> Pending<'_, ()> {
        Box::pin(self.db.write_in(key.clone(), super::ports::SMALL, |conn, key| {
            let head = super::sessions::head(conn, key)?;
            let add = "INSERT INTO memory_sessions (session_key, until) VALUES (?1, ?2)
                       ON CONFLICT (session_key) DO UPDATE SET until = excluded.until";
            conn.prepare_cached(add)?.execute((head.session_key, head.last_seq))?;
            Ok(())
        }))
    }

    fn index_next(&self) -> Pending<'_, IndexProgress> {
        Box::pin(async move {
            let lag = &self.db.index_lag;
            let _indexing = lag.indexing.lock().await;
            let mut work = lag.take();
            if let Some(wanted) = work.rest.clone() {
                work.rest = Some(self.index(wanted).await?);
            }
            drop(work);
            Ok(if lag.is_empty() { IndexProgress::Complete } else { IndexProgress::More })
        })
    }

    fn index_lags(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            while self.db.index_lag.is_empty() {
                self.db.index_lag.changed.notified().await;
            }
            Ok(())
        })
    }

    fn check_index(&self) {
        self.db.index_lag.restart();
    }

    fn reset_index(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            let _indexing = self.db.index_lag.indexing.lock().await;
            self.db.write(super::ports::SMALL, |conn| Ok(slice::reset(conn)?)).await?;
            self.db.index_lag.restart();
            Ok(())
        })
    }
}

impl SqliteStore {
    /// Indexes one slice and returns what remains of the work.
    async fn index(&self, work: IndexWork) -> Result<IndexWork, Error> {
        if work.pass.is_none() && work.changed.is_empty() {
            return Ok(work);
        }
        // Without this, a read-only file would be segmented and then refused.
        self.db.writer()?;
        let IndexWork { pass, changed } = work;
        let begins = pass == Some(0);
        if begins && self.db.readers.read(|conn| Ok(slice::is_outdated(conn)?)).await? {
            self.db.write(super::ports::SMALL, |conn| Ok(slice::reset(conn)?)).await?;
        }
        let plan = SlicePlan { pass, changed };
        let (slice, mut rest) = self.db.readers.read(move |conn| Ok(slice::read(conn, plan)?)).await?;
        if !slice.is_empty() {
            let (size, slice) = (slice.size(), Arc::new(slice));
            let left_out = self.db.write(size, move |conn| Ok(slice::apply(conn, &slice)?)).await?;
            rest.changed.extend(left_out);
        }
        Ok(IndexWork { pass: rest.pass, changed: rest.changed })
    }
}
