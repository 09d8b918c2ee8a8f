//! The write queue: back-pressure, batches, and draining on drop.

use crate::common::{append, fresh, holding, open, poll_once};
use session::{Commit, Error, OnConflict, Seq, SessionLog, SessionStore, Store, TailBudget, sqlite::Options};
use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};
use testkit::store_suite::make::{key, message, message_commit, new_session, page, seqs};

#[tokio::test]
async fn the_queue_is_full_at_its_maximum_number_of_jobs() {
    let options = Options { queue_jobs: 2, queue_wait: Duration::ZERO, ..Options::default() };
    let (store, dir) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&dir);
    let (mut first, mut second) = (append(&store, "m1"), append(&store, "m2"));
    poll_once(&mut first).await;
    poll_once(&mut second).await;
    let refused = append(&store, "m3").await.unwrap_err();
    assert!(matches!(refused, Error::QueueFull { waiting: 2 }), "{refused:?}");
    assert!(refused.is_transient());

    drop(lock);
    assert_eq!(first.await.unwrap().seq, Seq(1));
    assert_eq!(second.await.unwrap().seq, Seq(2));
    assert_eq!(append(&store, "m3").await.unwrap().seq, Seq(3));
}

#[tokio::test]
async fn the_queue_is_full_at_its_maximum_size() {
    let options = Options { queue_bytes: 10_000, queue_wait: Duration::ZERO, ..Options::default() };
    let (store, dir) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let large = |id: &str| {
        let content = "x".repeat(9_000);
        let message = session::SessionMessage { content, ..message(id) };
        store.commit(&key("s"), Commit::message(message))
    };
    let lock = holding(&dir);
    let mut first = large("m1");
    poll_once(&mut first).await;
    assert!(matches!(large("m2").await, Err(Error::QueueFull { waiting: 1.. })));

    drop(lock);
    first.await.unwrap();
    large("m2").await.unwrap();
}

#[tokio::test]
async fn a_job_larger_than_the_queue_is_admitted_alone() {
    let (store, _dir) = fresh(Options { queue_bytes: 100, ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let message = session::SessionMessage { content: "x".repeat(100_000), ..message("m1") };
    store.commit(&key("s"), Commit::message(message)).await.unwrap();
}

#[tokio::test]
async fn a_write_waits_for_room_in_the_queue() {
    let (store, dir) = fresh(Options { queue_jobs: 1, ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&dir);
    let mut answers: Vec<_> = (0..20).map(|n| append(&store, &format!("m{n}"))).collect();
    for answer in &mut answers {
        poll_once(answer).await;
    }
    drop(lock);
    for (n, answer) in (1..).zip(answers) {
        assert_eq!(answer.await.unwrap().seq, Seq(n), "writes keep their order while they wait");
    }
}

#[tokio::test]
async fn a_constraint_violation_fails_only_its_job_of_the_batch() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    // While the lock is held, the jobs form one batch. SQLite stores NaN as NULL, which violates NOT NULL.
    let lock = holding(&dir);
    let step = |n: u64| {
        let timestamp = if n.is_multiple_of(3) { f64::NAN } else { 1.0 };
        let message = session::SessionMessage { timestamp, ..message(&format!("m{n}")) };
        store.commit(&key("s"), Commit::message(message))
    };
    let mut answers: Vec<_> = (0..30).map(step).collect();
    for answer in &mut answers {
        poll_once(answer).await;
    }
    drop(lock);
    for (n, answer) in (0..).zip(answers) {
        let answer = answer.await;
        assert_eq!(answer.is_err(), n % 3 == 0, "{n}: {answer:?}");
        assert!(!matches!(answer, Err(Error::Closed)));
    }
    let rows = store.read(&key("s"), page(0, 100)).await.unwrap();
    assert_eq!(seqs(&rows), (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn dropping_the_last_handle_commits_the_queue() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&dir);
    for n in 0..50 {
        // The futures are dropped.
        poll_once(&mut append(&store, &format!("m{n}"))).await;
    }
    drop(lock);
    drop(store);
    let store = open(&dir, Options::default()).unwrap();
    assert_eq!(store.read(&key("s"), page(0, 100)).await.unwrap().len(), 50);
}

#[tokio::test]
async fn a_closing_store_waits_only_briefly_for_the_write_lock() {
    let (store, dir) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&dir);
    poll_once(&mut append(&store, "m1")).await;
    let asked = Instant::now();
    drop(store);
    assert!(asked.elapsed() < Options::default().busy_timeout / 4);
    drop(lock);
    let store = open(&dir, Options::default()).unwrap();
    assert!(store.read(&key("s"), page(0, 100)).await.unwrap().is_empty(), "the write was not acknowledged");
}

#[test]
fn the_default_queue_wait_exceeds_the_busy_timeout_of_at_least_30_s() {
    let Options { queue_wait, busy_timeout, .. } = Options::default();
    assert!(busy_timeout >= Duration::from_secs(30));
    assert!(queue_wait > busy_timeout);
}

#[tokio::test]
async fn the_backlog_of_a_full_queue_is_bounded() {
    let options = Options { queue_bytes: 1_000, ..Options::default() };
    let (store, dir) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&dir);
    let large = |id: &str| {
        let message = session::SessionMessage { content: "x".repeat(1_000), ..message(id) };
        store.commit(&key("s"), Commit::message(message))
    };
    let mut waiting = Vec::new();
    let refused = loop {
        let mut answer = large(&format!("m{}", waiting.len()));
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(refused) => break refused,
            Poll::Pending => waiting.push(answer),
        }
        assert!(waiting.len() < 10, "the backlog is not bounded");
    };
    assert!(matches!(refused, Err(Error::QueueFull { .. })), "{refused:?}");
    drop(lock);
    for answer in waiting {
        answer.await.unwrap();
    }
}

#[tokio::test]
async fn a_clone_keeps_the_store_open() {
    let (store, _dir) = fresh(Options::default());
    let clone = store.clone();
    drop(store);
    clone.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    clone.commit(&key("s"), message_commit("m1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_share_one_file() {
    let (one, dir) = fresh(Options::default());
    let two = open(&dir, Options::default()).unwrap();
    one.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let talk = |store: session::sqlite::SqliteStore, name: &'static str| async move {
        for n in 0..50 {
            append(&store, &format!("{name}{n}")).await?;
        }
        Ok::<_, Error>(())
    };
    let (first, second) =
        tokio::join!(tokio::spawn(talk(one.clone(), "one")), tokio::spawn(talk(two.clone(), "two")));
    first.unwrap().unwrap();
    second.unwrap().unwrap();
    for store in [&one as &dyn Store, &two] {
        let found = store.load(&key("s"), TailBudget::ALL).await.unwrap().unwrap();
        assert_eq!(seqs(&found.tail), (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn a_new_file_can_be_opened_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&dir, Options::default()))).collect();
        for store in opened {
            store.join().unwrap().unwrap();
        }
    });
}
