//! Faults of the file, the disk and other programs: each has its name, none ends the store.

use crate::common::{append, file, fresh, holding, open, poll_once};
use session::{
    Commit, Error, Message, OnConflict, SessionLog, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};
use testkit::store_suite::make::{key, message, new_session, page, says, seqs};

fn impatient() -> Options {
    Options { busy_timeout: Duration::ZERO, ..Options::default() }
}

#[tokio::test]
async fn a_locked_file_is_named_and_reads_go_on() {
    let (store, place) = fresh(impatient());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    append(&store, "m1").await.unwrap();
    let lock = holding(&place);
    let refused = append(&store, "m2").await.unwrap_err();
    assert!(matches!(&refused, Error::Locked { path, .. } if *path == file(&place)), "{refused:?}");
    assert!(refused.is_transient());
    assert_eq!(store.read(&key("s"), page(0, 10)).await.unwrap().len(), 1);

    drop(lock);
    assert_eq!(append(&store, "m2").await.unwrap().seq.0, 2);
}

#[test]
fn a_new_file_that_another_program_holds_is_locked() {
    let place = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(file(&place)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE t (a)").unwrap();
    assert!(matches!(open(&place, impatient()), Err(Error::Locked { .. })));
}

#[test]
fn a_file_that_is_no_database_is_named_and_kept() {
    for content in ["hello", &"not a database ".repeat(10_000)] {
        let place = tempfile::tempdir().unwrap();
        fs::write(file(&place), content).unwrap();
        let refused = open(&place, Options::default()).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
        assert_eq!(fs::read_to_string(file(&place)).unwrap(), content);
    }
}

#[tokio::test]
async fn a_damaged_file_is_named_and_never_a_panic() {
    let (store, place) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    for n in 0..200 {
        append(&store, &format!("m{n}")).await.unwrap();
    }
    drop(store);
    // The first page says that it is a database; the rest is noise.
    let mut bytes = fs::read(file(&place)).unwrap();
    bytes.iter_mut().skip(16_384).for_each(|byte| *byte = 0xa5);
    fs::write(file(&place), bytes).unwrap();
    let refused = match open(&place, Options::default()) {
        Ok(store) => store.load(&key("s"), TailBudget::ALL).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
}

#[test]
fn a_place_that_is_no_file_cannot_be_opened() {
    let place = tempfile::tempdir().unwrap();
    for path in [place.path().join("no/such/folder.db"), place.path().to_path_buf()] {
        let refused = SqliteStore::open(&path, Options::default()).unwrap_err();
        assert!(matches!(refused, Error::Open { .. }), "{refused:?}");
    }
}

/// Permission bits do not stop the superuser, but nobody may write to a program that is running.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_is_read_only() {
    let running = std::env::current_exe().unwrap();
    let refused = SqliteStore::open(running, Options::default()).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused:?}");
}

#[test]
fn the_file_is_for_its_owner_only() {
    let (_store, place) = fresh(Options::default());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file(&place)), 0o600);
    assert_eq!(mode(&place.path().join("lango.db-wal")), 0o600);
}

fn large(id: &str) -> Commit {
    let message = Message { content: "x".repeat(100_000), ..message(id) };
    Commit::message(message)
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_the_store_goes_on() {
    let (store, _place) = fresh(Options { max_bytes: Some(1024 * 1024), ..Options::default() });
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
        assert!(stored < 100, "the limit does not hold");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused:?}");

    let found = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
    assert_eq!(seqs(&found.tail), (1..=stored).collect::<Vec<_>>());
    assert!(found.tail.iter().all(|row| row.message.content.len() == 100_000));
    assert_eq!(found.row.last_seq.0, stored);

    assert!(store.delete(&key("other")).await.unwrap());
    assert_eq!(store.commit(&key("s"), large("after")).await.unwrap().seq.0, stored + 1);
}

#[tokio::test]
async fn what_fits_is_stored_beside_what_does_not() {
    let (store, place) = fresh(Options { max_bytes: Some(1024 * 1024), ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let huge = Message { content: "x".repeat(2_000_000), ..message("huge") };
    let huge = Commit::message(huge);
    let lock = holding(&place);
    let mut answers =
        [says("m1"), huge.clone(), says("m2"), huge, says("m3")].map(|step| store.commit(&key("s"), step));
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
