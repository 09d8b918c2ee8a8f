//! Contract tests of idempotency keys: unique per user, stored with the message.

use super::{
    SharedStore,
    make::{
        enqueue, finish, finishes, ids, key, load, message_commit, new_session, run, run_with_key, session,
        start, start_commit, start_with, starts, status, withdrawal,
    },
};
use session::{Commit, Error, IdempotencyKey, OnConflict, Result, RunRecord, RunStatus, Seq, SessionKey};

fn assert_duplicate<T: std::fmt::Debug>(answer: &Result<T>, session: &SessionKey, run: &str) {
    assert!(matches!(answer, Err(Error::Duplicate { key, id }) if key == session && id == run), "{answer:?}");
}

/// Enqueues and starts the run of a request.
async fn request(store: &SharedStore, key: &SessionKey, run: session::NewRun) -> [Result<()>; 2] {
    let queued = enqueue(store, key, run.clone()).await.map(|_: RunRecord| ());
    [queued, store.commit(key, start_commit(run)).await.map(drop)]
}

pub async fn a_repeated_request_is_a_duplicate(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run_with_key("r1", "once", "f")).await?;
    for end in [None, Some(RunStatus::Done)] {
        if let Some(end) = end {
            finish(&store, &lease, end).await?;
        }
        for answer in request(&store, &key, run_with_key("r2", "once", "f")).await {
            assert_duplicate(&answer, &key, "r1");
        }
    }
    assert_eq!(store.run(&key, "r2").await?, None);
    assert_eq!(ids(&load(&store, &key).await?.tail), ["r1"]);
    // A request without a key, or with another key, is a new one.
    for run in [run("r3"), run("r4"), run_with_key("r5", "twice", "f")] {
        enqueue(&store, &key, run).await?;
    }
    Ok(())
}

pub async fn an_idempotency_key_of_another_request_is_refused(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    enqueue(&store, &key, run_with_key("r1", "once", "f")).await?;
    for answer in request(&store, &key, run_with_key("r2", "once", "another message")).await {
        assert!(matches!(answer, Err(Error::KeyReused)), "{answer:?}");
    }
    for fingerprint in ["f", "another message"] {
        for answer in request(&store, &other, run_with_key("r2", "once", fingerprint)).await {
            assert!(matches!(answer, Err(Error::KeyReused)), "{answer:?}");
        }
    }
    // The same run id in another session is another request.
    for answer in request(&store, &other, run_with_key("r1", "once", "f")).await {
        assert!(matches!(answer, Err(Error::KeyReused)), "{answer:?}");
    }
    assert!(store.runs(&other, 10).await?.is_empty());
    assert_eq!(store.runs(&key, 10).await?.len(), 1);
    Ok(())
}

pub async fn a_run_is_found_by_its_idempotency_key(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    let request = |fingerprint: &str| IdempotencyKey { key: "once".into(), fingerprint: fingerprint.into() };
    assert_eq!(store.run_of_request(&key, &request("f")).await?, None);
    let queued = enqueue(&store, &key, run_with_key("r1", "once", "f")).await?;
    assert_eq!(store.run_of_request(&key, &request("f")).await?, Some(queued));
    for (key, fingerprint) in [(&key, "another message"), (&other, "f")] {
        let answer = store.run_of_request(key, &request(fingerprint)).await;
        assert!(matches!(answer, Err(Error::KeyReused)), "{answer:?}");
    }
    Ok(())
}

pub async fn idempotency_keys_of_users_are_independent(store: SharedStore) -> Result<()> {
    for (app, user) in [("app", "ann"), ("app", "bob")] {
        let key = SessionKey::new(app, user, "s");
        store.create(new_session(&key, OnConflict::Fail)).await?;
        start(&store, &key, run_with_key("r", "once", user)).await?;
    }
    // Keys are shared by all apps of a user.
    let key = SessionKey::new("another app", "ann", "s");
    store.create(new_session(&key, OnConflict::Fail)).await?;
    let answer = start(&store, &key, run_with_key("r", "once", "ann")).await;
    assert!(matches!(answer, Err(Error::KeyReused)), "{answer:?}");
    Ok(())
}

pub async fn a_refused_request_does_not_use_its_idempotency_key(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    let request = |id: &str| run_with_key(id, "once", "f");
    let busy = store.commit(&key, start_commit(request("r1"))).await;
    assert!(matches!(busy, Err(Error::Busy(_))));
    finish(&store, &lease, RunStatus::Done).await?;
    let conflict = Commit { expected_seq: Some(Seq(9)), ..start_commit(request("r2")) };
    assert!(matches!(store.commit(&key, conflict).await, Err(Error::Conflict { .. })));
    assert!(matches!(enqueue(&store, &key, request("r")).await, Err(Error::RunMoved { .. })));
    let missing = super::make::key("missing");
    assert!(matches!(enqueue(&store, &missing, request("r3")).await, Err(Error::NotFound(_))));
    start(&store, &key, request("r4")).await?;
    Ok(())
}

pub async fn a_known_key_in_a_missing_session_is_not_found(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    start(&store, &key, run_with_key("r", "once", "f")).await?;
    for answer in request(&store, &super::make::key("missing"), run_with_key("r2", "once", "f")).await {
        assert!(matches!(answer, Err(Error::NotFound(_))), "{answer:?}");
    }
    Ok(())
}

pub async fn a_queued_run_starts_with_its_own_idempotency_key(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let request = |id: &str| run_with_key(id, "once", "f");
    enqueue(&store, &key, request("r1")).await?;
    assert_duplicate(&enqueue(&store, &key, request("r1")).await, &key, "r1");
    let changed = store.commit(&key, start_commit(run_with_key("r1", "once", "another message"))).await;
    assert!(matches!(changed, Err(Error::KeyReused)), "{changed:?}");
    let lease = start(&store, &key, request("r1")).await?;
    assert_duplicate(
        &store.commit(&key, Commit { turn: starts(request("r1")), ..message_commit("again") }).await,
        &key,
        "r1",
    );
    finish(&store, &lease, RunStatus::Done).await?;
    assert_duplicate(&enqueue(&store, &key, request("r2")).await, &key, "r1");
    Ok(())
}

pub async fn a_withdrawn_request_keeps_its_idempotency_key(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run_with_key("r1", "once", "f")).await?;
    assert!(store.withdraw(&key, withdrawal("r1", RunStatus::Cancelled)).await?);
    assert_duplicate(&enqueue(&store, &key, run_with_key("r2", "once", "f")).await, &key, "r1");
    assert_eq!(status(&store, &key, "r1").await?, RunStatus::Cancelled);
    Ok(())
}

/// Each answer to a question of a run is a request with its own key.
pub async fn a_repeated_answer_does_not_answer_the_next_question(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let asks = |lease, id: &str| {
        let commit = Commit { turn: finishes(&lease, RunStatus::Waiting), ..message_commit(id) };
        let (store, key) = (&store, &key);
        async move { store.commit(key, commit).await }
    };
    let answers =
        |name: &str, id: &str| Commit { turn: starts(run_with_key("r", name, name)), ..message_commit(id) };
    let lease = start(&store, &key, run_with_key("r", "message", "message")).await?;
    asks(lease, "first question").await?;
    let lease = start_with(&store, &key, answers("answer", "first answer")).await?;
    asks(lease, "second question").await?;
    for name in ["answer", "message"] {
        assert_duplicate(&store.commit(&key, answers(name, "repeated")).await, &key, "r");
        assert_duplicate(&enqueue(&store, &key, run_with_key("r", name, name)).await, &key, "r");
    }
    assert_eq!(status(&store, &key, "r").await?, RunStatus::Waiting);
    start_with(&store, &key, answers("second", "second answer")).await?;
    Ok(())
}

pub async fn deleting_a_session_frees_its_idempotency_keys(store: SharedStore) -> Result<()> {
    let deleted = session(&store, "s").await?;
    start(&store, &deleted, run_with_key("r1", "once", "f")).await?;
    store.delete(&deleted).await?;
    let other = session(&store, "other").await?;
    start(&store, &other, run_with_key("r2", "once", "another")).await?;
    assert_eq!(key("s"), session(&store, "s").await?);
    Ok(())
}
