//! Files that are deleted or replaced while they are open: no commit to such a file is acknowledged.

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
    used_with(Options::default()).await
}

async fn used_with(options: Options) -> (SqliteStore, TempDir) {
    let (store, dir) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    (store, dir)
}

fn beside(dir: &TempDir, suffix: &str) -> PathBuf {
    dir.path().join(format!("lango.db{suffix}"))
}

async fn ids(store: &SqliteStore) -> Vec<String> {
    let rows = store.read(&key("s"), page(0, 100)).await.unwrap();
    rows.into_iter().map(|row| row.message.id).collect()
}

#[tokio::test]
async fn a_deleted_database_refuses_reads_and_writes_until_it_is_restored() {
    let (store, dir) = used().await;
    let elsewhere = dir.path().join("elsewhere.db");
    fs::rename(file(&dir), &elsewhere).unwrap();
    for refused in [
        append(&store, "m2").await.map(drop),
        store.heartbeat().await.map(drop),
        store.load(&key("s"), TailBudget::ALL).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(Error::Deleted { path }) if *path == file(&dir)), "{refused:?}");
        assert!(refused.unwrap_err().is_storage_fault());
    }
    fs::rename(&elsewhere, file(&dir)).unwrap();
    append(&store, "m3").await.unwrap();
    assert_eq!(ids(&store).await, ["m1", "m3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inline_commit_to_a_deleted_database_is_refused() {
    let (store, dir) = used_with(Options { inline_commits: true, ..Options::default() }).await;
    fs::remove_file(file(&dir)).unwrap();
    let refused = append(&store, "m2").await;
    assert!(matches!(refused, Err(Error::Deleted { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_replaced_database_is_neither_read_nor_written() {
    let (store, dir) = used().await;
    let (other, elsewhere) = fresh(Options::default());
    other.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    drop(other);
    fs::rename(file(&elsewhere), file(&dir)).unwrap();
    for refused in
        [append(&store, "m2").await.map(drop), store.load(&key("s"), TailBudget::ALL).await.map(drop)]
    {
        assert!(matches!(&refused, Err(Error::Replaced { path }) if *path == file(&dir)), "{refused:?}");
    }
    drop(store);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&dir, suffix));
    }
    let store = open(&dir, Options::default()).unwrap();
    assert!(ids(&store).await.is_empty(), "the other database is unchanged");
}

#[tokio::test]
async fn a_deleted_wal_or_shm_file_is_an_error_with_its_path() {
    for suffix in ["-wal", "-shm"] {
        let (store, dir) = used().await;
        fs::remove_file(beside(&dir, suffix)).unwrap();
        for refused in
            [append(&store, "m2").await.map(drop), store.load(&key("s"), TailBudget::ALL).await.map(drop)]
        {
            assert!(
                matches!(&refused, Err(Error::Detached { path }) if *path == beside(&dir, suffix)),
                "{suffix}: {refused:?}"
            );
        }
        drop(store);
        let store = open(&dir, Options::default()).unwrap();
        assert_eq!(ids(&store).await, ["m1"], "{suffix}");
    }
}

#[tokio::test]
async fn a_deleted_write_ahead_log_is_checkpointed_immediately() {
    let (store, dir) = used().await;
    fs::remove_file(beside(&dir, "-wal")).unwrap();
    append(&store, "m2").await.unwrap_err();
    // As after SIGKILL: the store is not closed.
    mem::forget(store);
    let copy = dir.path().join("copy.db");
    fs::copy(file(&dir), &copy).unwrap();
    assert_eq!(ids(&SqliteStore::open(copy, Options::default()).unwrap()).await, ["m1"]);
}

#[tokio::test]
async fn a_symbolic_link_to_a_database_is_followed_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (link, real) = (dir.path().join("link.db"), dir.path().join("real.db"));
    symlink(&real, &link).unwrap();
    drop(SqliteStore::open(&real, Options::default()).unwrap());
    let store = SqliteStore::open(&link, Options::default()).unwrap();
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    assert_eq!(ids(&store).await, ["m1"]);

    replace_link(&dir.path().join("other.db"), &link);
    let refused = append(&store, "m2").await;
    assert!(matches!(refused, Err(Error::Replaced { .. })), "{refused:?}");
}

fn replace_link(target: &Path, link: &Path) {
    drop(SqliteStore::open(target, Options::default()).unwrap());
    fs::remove_file(link).unwrap();
    symlink(target, link).unwrap();
}
