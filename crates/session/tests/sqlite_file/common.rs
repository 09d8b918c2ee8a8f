//! Helpers for the tests of the SQLite file.

use rusqlite::Connection;
use session::{
    Committed, Pending, Purge, PurgeProgress, PurgeSlice, Result, SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::{future::poll_fn, path::PathBuf, task::Poll, time::Duration};
use tempfile::TempDir;
use testkit::store_suite::make::{key, message_commit};

pub(crate) fn file(dir: &TempDir) -> PathBuf {
    dir.path().join("lango.db")
}

pub(crate) fn open(dir: &TempDir, options: Options) -> Result<SqliteStore> {
    SqliteStore::open(file(dir), options)
}

pub(crate) fn fresh(options: Options) -> (SqliteStore, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (open(&dir, options).unwrap(), dir)
}

/// Another process that holds the write lock until the connection is dropped.
pub(crate) fn holding(dir: &TempDir) -> Connection {
    let conn = Connection::open(file(dir)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

pub(crate) fn append<'a>(store: &'a SqliteStore, id: &str) -> Pending<'a, Committed> {
    store.commit(&key("s"), message_commit(id))
}

/// Submits a write without waiting for its result.
pub(crate) async fn poll_once<T>(answer: &mut Pending<'_, T>) {
    poll_fn(|context| {
        assert!(answer.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Deletes all rows of deleted sessions.
pub(crate) async fn purge_all(store: &SqliteStore) {
    let slice = PurgeSlice { rows: 100, time: Duration::MAX };
    while store.purge(slice).await.unwrap() == PurgeProgress::More {}
}
