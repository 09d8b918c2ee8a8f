//! Short words for the tests of the SQLite file.

use rusqlite::Connection;
use session::{
    Committed, Pending, Result, SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::{future::poll_fn, path::PathBuf, task::Poll};
use tempfile::TempDir;
use testkit::store_suite::make::{key, says};

pub(crate) fn file(place: &TempDir) -> PathBuf {
    place.path().join("lango.db")
}

pub(crate) fn open(place: &TempDir, options: Options) -> Result<SqliteStore> {
    SqliteStore::open(file(place), options)
}

pub(crate) fn fresh(options: Options) -> (SqliteStore, TempDir) {
    let place = tempfile::tempdir().unwrap();
    (open(&place, options).unwrap(), place)
}

/// Another program that holds the write lock until this is dropped.
pub(crate) fn holding(place: &TempDir) -> Connection {
    let conn = Connection::open(file(place)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

pub(crate) fn append<'a>(store: &'a SqliteStore, id: &str) -> Pending<'a, Committed> {
    store.commit(&key("s"), says(id))
}

/// Sends a write on its way without waiting for its answer.
pub(crate) async fn poll_once<T>(answer: &mut Pending<'_, T>) {
    poll_fn(|context| {
        assert!(answer.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}
