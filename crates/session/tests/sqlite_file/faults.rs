//! Faults of the file, the disk and other processes: each has its own error, and the store keeps working.

use crate::common::{append, file, fresh, holding, open, poll_once, purge_all};
use session::{
    Commit, Error, OnConflict, SessionLog, SessionMessage, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};
use testkit::store_suite::make::{key, message, message_commit, new_session, page, seqs};

fn without_wait() -> Options {
    Options { busy_timeout: Duration::ZERO, ..Options::default() }
}

#[tokio::test]
async fn a_locked_file_refuses_writes_and_allows_reads() {
    let (store, dir) = fresh(without_wait());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    let lock = holding(&dir);
    let refused = append(&store, "m2").await.unwrap_err();
    assert!(matches!(&refused, Error::Locked { path, .. } if *path == file(&dir)), "{refused:?}");
    assert!(refused.is_transient());
    assert_eq!(store.read(&key("s"), page(0, 10)).await.unwrap().len(), 1);

    drop(lock);
    assert_eq!(append(&store, "m2").await.unwrap().seq.0, 2);
}

#[test]
fn opening_a_file_locked_by_another_process_fails_with_locked() {
    let dir = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(file(&dir)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE t (a)").unwrap();
    assert!(matches!(open(&dir, without_wait()), Err(Error::Locked { .. })));
}

#[test]
fn a_file_that_is_not_a_database_is_damaged_and_not_changed() {
    for content in ["hello", &"not a database ".repeat(10_000)] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(file(&dir), content).unwrap();
        let refused = open(&dir, Options::default()).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
        assert_eq!(fs::read_to_string(file(&dir)).unwrap(), content);
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_not_a_panic() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    for n in 0..200 {
        append(&store, &format!("m{n}")).await.unwrap();
    }
    drop(store);
    // The first page is valid; the others are overwritten.
    let mut bytes = fs::read(file(&dir)).unwrap();
    bytes.iter_mut().skip(16_384).for_each(|byte| *byte = 0xa5);
    fs::write(file(&dir), bytes).unwrap();
    let refused = match open(&dir, Options::default()) {
        Ok(store) => store.load(&key("s"), TailBudget::ALL).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
}

#[test]
fn a_missing_directory_and_a_directory_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("no/such/folder.db"), dir.path().to_path_buf()] {
        let refused = SqliteStore::open(&path, Options::default()).unwrap_err();
        assert!(matches!(refused, Error::Open { .. }), "{refused:?}");
    }
}

/// Permission bits do not apply to root, but the file of a running program refuses writes (ETXTBSY).
#[cfg(target_os = "linux")]
#[test]
fn a_file_without_write_access_is_read_only() {
    let running = std::env::current_exe().unwrap();
    let refused = SqliteStore::open(running, Options::default()).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused:?}");
}

#[test]
fn the_files_have_mode_0600() {
    let (_store, dir) = fresh(Options::default());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file(&dir)), 0o600);
    assert_eq!(mode(&dir.path().join("lango.db-wal")), 0o600);
}

fn large(id: &str) -> Commit {
    let message = SessionMessage { content: "x".repeat(100_000), ..message(id) };
    Commit::message(message)
}

#[tokio::test]
async fn a_full_disk_loses_no_commit_and_the_store_recovers() {
    let (store, _dir) = fresh(Options { max_bytes: Some(1024 * 1024), ..Options::default() });
    for name in ["s", "other"] {
        store.create(new_session(&key(name), OnConflict::Fail)).await.unwrap();
        store.commit(&key(name), large("m0")).await.unwrap();
    }
    let mut stored = 1;
    let refused = loop {
        match store.commit(&key("s"), large(&format!("m{stored}"))).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "max_bytes is not enforced");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused:?}");

    let found = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!(seqs(&found.tail), (1..=stored).collect::<Vec<_>>());
    assert!(found.tail.iter().all(|row| row.message.content.len() == 100_000));
    assert_eq!(found.row.last_seq.0, stored);

    assert!(store.delete(&key("other")).await.unwrap());
    purge_all(&store).await;
    assert_eq!(store.commit(&key("s"), large("after")).await.unwrap().seq.0, stored + 1);
}

#[tokio::test]
async fn commits_that_fit_are_stored_although_others_of_the_batch_do_not() {
    let (store, dir) = fresh(Options { max_bytes: Some(1024 * 1024), ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let huge = SessionMessage { content: "x".repeat(2_000_000), ..message("huge") };
    let huge = Commit::message(huge);
    let lock = holding(&dir);
    let mut answers = [message_commit("m1"), huge.clone(), message_commit("m2"), huge, message_commit("m3")]
        .map(|step| store.commit(&key("s"), step));
    for answer in &mut answers {
        poll_once(answer).await;
    }
    drop(lock);
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.push(answer.await.map(|committed| committed.seq.0));
    }
    assert!(
        matches!(
            outcomes[..],
            [Ok(1), Err(Error::DiskFull { .. }), Ok(2), Err(Error::DiskFull { .. }), Ok(3)]
        ),
        "{outcomes:?}"
    );
}
