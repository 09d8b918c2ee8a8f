//! Files that are deleted or replaced while they are open: nothing is acknowledged into a file that nobody will find.

use crate::common::{append, file, fresh, open};
use session::{
    Error, OnConflict, Owners, SessionLog, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{
    fs, mem,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use testkit::store_suite::make::{key, new_session, page};

/// A store with a session of one message.
async fn used() -> (SqliteStore, TempDir) {
    let (store, place) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    (store, place)
}

fn beside(place: &TempDir, suffix: &str) -> PathBuf {
    place.path().join(format!("lango.db{suffix}"))
}

async fn ids(store: &SqliteStore) -> Vec<String> {
    let rows = store.read(&key("s"), page(0, 100)).await.unwrap();
    rows.into_iter().map(|row| row.message.id).collect()
}

#[tokio::test]
async fn a_deleted_database_refuses_reads_and_writes_until_it_is_put_back() {
    let (store, place) = used().await;
    let elsewhere = place.path().join("elsewhere.db");
    fs::rename(file(&place), &elsewhere).unwrap();
    for refused in [
        append(&store, "m2").await.map(drop),
        store.heartbeat().await.map(drop),
        store.load(&key("s"), TailBudget::ALL).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(Error::Deleted { path }) if *path == file(&place)), "{refused:?}");
        assert!(refused.unwrap_err().is_storage_fault());
    }
    fs::rename(&elsewhere, file(&place)).unwrap();
    append(&store, "m3").await.unwrap();
    assert_eq!(ids(&store).await, ["m1", "m3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_the_callers_thread_is_refused_too() {
    let (store, place) = used().await;
    fs::remove_file(file(&place)).unwrap();
    let refused = append(&store, "m2").await;
    assert!(matches!(refused, Err(Error::Deleted { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_replaced_database_is_neither_read_nor_written() {
    let (store, place) = used().await;
    let (other, elsewhere) = fresh(Options::default());
    other.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    drop(other);
    fs::rename(file(&elsewhere), file(&place)).unwrap();
    for refused in
        [append(&store, "m2").await.map(drop), store.load(&key("s"), TailBudget::ALL).await.map(drop)]
    {
        assert!(matches!(&refused, Err(Error::Replaced { path }) if *path == file(&place)), "{refused:?}");
    }
    drop(store);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&place, suffix));
    }
    let store = open(&place, Options::default()).unwrap();
    assert!(ids(&store).await.is_empty(), "the other database is as it was");
}

#[tokio::test]
async fn a_missing_file_beside_the_database_is_named() {
    for suffix in ["-wal", "-shm"] {
        let (store, place) = used().await;
        fs::remove_file(beside(&place, suffix)).unwrap();
        for refused in
            [append(&store, "m2").await.map(drop), store.load(&key("s"), TailBudget::ALL).await.map(drop)]
        {
            assert!(
                matches!(&refused, Err(Error::Detached { path }) if *path == beside(&place, suffix)),
                "{suffix}: {refused:?}"
            );
        }
        drop(store);
        let store = open(&place, Options::default()).unwrap();
        assert_eq!(ids(&store).await, ["m1"], "{suffix}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_before_the_log_was_deleted_is_saved_at_once() {
    let (store, place) = used().await;
    fs::remove_file(beside(&place, "-wal")).unwrap();
    append(&store, "m2").await.unwrap_err();
    // As after `kill -9`: nobody closes the store.
    mem::forget(store);
    let copy = place.path().join("copy.db");
    fs::copy(file(&place), &copy).unwrap();
    assert_eq!(ids(&SqliteStore::open(copy, Options::default()).unwrap()).await, ["m1"]);
}

#[tokio::test]
async fn a_link_to_a_database_is_followed_and_watched() {
    let place = tempfile::tempdir().unwrap();
    let (link, real) = (place.path().join("link.db"), place.path().join("real.db"));
    symlink(&real, &link).unwrap();
    drop(SqliteStore::open(&real, Options::default()).unwrap());
    let store = SqliteStore::open(&link, Options::default()).unwrap();
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    assert_eq!(ids(&store).await, ["m1"]);

    replace_link(&place.path().join("other.db"), &link);
    let refused = append(&store, "m2").await;
    assert!(matches!(refused, Err(Error::Replaced { .. })), "{refused:?}");
}

fn replace_link(target: &Path, link: &Path) {
    drop(SqliteStore::open(target, Options::default()).unwrap());
    fs::remove_file(link).unwrap();
    symlink(target, link).unwrap();
}
