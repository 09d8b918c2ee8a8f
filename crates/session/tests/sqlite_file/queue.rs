//! The writer's queue: bounded, drained in whole batches, emptied before the store is gone.

use crate::common::{append, fresh, holding, open, poll_once};
use session::{Commit, Error, OnConflict, Seq, SessionLog, SessionStore, Store, TailBudget, sqlite::Options};
use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};
use testkit::store_suite::make::{key, message, new_session, page, says, seqs};

#[tokio::test]
async fn a_queue_with_too_many_jobs_is_full() {
    let options = Options { queue_jobs: 2, queue_wait: Duration::ZERO, ..Options::default() };
    let (store, place) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&place);
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
async fn a_queue_with_too_many_bytes_is_full() {
    let options = Options { queue_bytes: 10_000, queue_wait: Duration::ZERO, ..Options::default() };
    let (store, place) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let large = |id: &str| {
        let content = "x".repeat(9_000);
        let message = session::Message { content, ..message(id) };
        store.commit(&key("s"), Commit::message(message))
    };
    let lock = holding(&place);
    let mut first = large("m1");
    poll_once(&mut first).await;
    assert!(matches!(large("m2").await, Err(Error::QueueFull { waiting: 1.. })));

    drop(lock);
    first.await.unwrap();
    large("m2").await.unwrap();
}

#[tokio::test]
async fn a_job_larger_than_the_whole_queue_goes_alone() {
    let (store, _place) = fresh(Options { queue_bytes: 100, ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let message = session::Message { content: "x".repeat(100_000), ..message("m1") };
    store.commit(&key("s"), Commit::message(message)).await.unwrap();
}

#[tokio::test]
async fn a_write_waits_for_room() {
    let (store, place) = fresh(Options { queue_jobs: 1, ..Options::default() });
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&place);
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
async fn a_job_that_sqlite_refuses_fails_alone_in_its_batch() {
    let (store, place) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    // While the lock is held the jobs gather in one batch. SQLite takes NaN for NULL, which the table refuses.
    let lock = holding(&place);
    let step = |n: u64| {
        let timestamp = if n.is_multiple_of(3) { f64::NAN } else { 1.0 };
        let message = session::Message { timestamp, ..message(&format!("m{n}")) };
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
async fn dropping_the_last_handle_writes_what_is_queued() {
    let (store, place) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&place);
    for n in 0..50 {
        // Nobody waits for these answers.
        poll_once(&mut append(&store, &format!("m{n}"))).await;
    }
    drop(lock);
    drop(store);
    let store = open(&place, Options::default()).unwrap();
    assert_eq!(store.read(&key("s"), page(0, 100)).await.unwrap().len(), 50);
}

#[tokio::test]
async fn a_store_that_is_closed_does_not_wait_long_for_another_process() {
    let (store, place) = fresh(Options::default());
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&place);
    poll_once(&mut append(&store, "m1")).await;
    let asked = Instant::now();
    drop(store);
    assert!(asked.elapsed() < Options::default().busy_timeout / 4);
    drop(lock);
    let store = open(&place, Options::default()).unwrap();
    assert!(
        store.read(&key("s"), page(0, 100)).await.unwrap().is_empty(),
        "nobody was told that it is stored"
    );
}

#[test]
fn a_queue_is_waited_for_longer_than_another_process_and_that_for_half_a_minute() {
    let Options { queue_wait, busy_timeout, .. } = Options::default();
    assert!(busy_timeout >= Duration::from_secs(30));
    assert!(queue_wait > busy_timeout);
}

#[tokio::test]
async fn what_waits_for_room_in_the_queue_is_bounded() {
    let options = Options { queue_bytes: 1_000, ..Options::default() };
    let (store, place) = fresh(options);
    store.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    let lock = holding(&place);
    let large = |id: &str| {
        let message = session::Message { content: "x".repeat(1_000), ..message(id) };
        store.commit(&key("s"), Commit::message(message))
    };
    let mut waiting = Vec::new();
    let refused = loop {
        let mut answer = large(&format!("m{}", waiting.len()));
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(refused) => break refused,
            Poll::Pending => waiting.push(answer),
        }
        assert!(waiting.len() < 10, "the limit does not hold");
    };
    assert!(matches!(refused, Err(Error::QueueFull { .. })), "{refused:?}");
    drop(lock);
    for answer in waiting {
        answer.await.unwrap();
    }
}

#[tokio::test]
async fn a_clone_keeps_the_store_open() {
    let (store, _place) = fresh(Options::default());
    let clone = store.clone();
    drop(store);
    clone.create(new_session(&key("s"), OnConflict::Fail)).await.unwrap();
    clone.commit(&key("s"), says("m1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_share_one_file() {
    let (one, place) = fresh(Options::default());
    let two = open(&place, Options::default()).unwrap();
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
fn many_may_open_a_new_file_at_once() {
    let place = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&place, Options::default()))).collect();
        for store in opened {
            store.join().unwrap().unwrap();
        }
    });
}
