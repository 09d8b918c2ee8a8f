//! Contract tests of leases: one running run per session, and fencing of earlier holders.

use super::{
    SharedStore,
    make::{
        ME, enqueue, finish, finishes, ids, load, message_commit, run, run_of, session, start, start_commit,
        start_with, starts, step, take_over, turn, withdrawal,
    },
};
use session::{
    Activity, Commit, Error, Lease, OwnedRun, Result, RunStatus, Scope, Seq, SessionKey, Start, StateChange,
    TurnChange,
};

/// The owner of the running run.
async fn holder(store: &SharedStore, key: &SessionKey) -> Result<Option<String>> {
    Ok(store.activity(key).await?.running.map(|run| run.owner))
}

pub async fn a_started_run_holds_the_lease(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    assert_eq!(store.activity(&key).await?, Activity::default());
    let committed = store.commit(&key, start_commit(run_of("a", "m1"))).await?;
    let lease = committed.started.ok_or_else(|| Error::Fenced(key.clone()))?.lease;
    assert_eq!(lease, Lease { key: key.clone(), run: 1, epoch: committed.epoch });
    let running = Some(OwnedRun { id: "m1".into(), owner: "a".into(), ticket: None });
    let activity = Activity { running, lease: Some(lease), first_queued: None };
    assert_eq!(store.activity(&key).await?, activity);
    for owner in ["a", "b"] {
        let refused = store.commit(&key, start_commit(run_of(owner, "m2"))).await;
        assert!(matches!(refused, Err(Error::Busy(busy)) if busy == key));
    }
    assert_eq!(load(&store, &key).await?.row.last_seq, Seq(1));
    let other = session(&store, "other").await?;
    start(&store, &other, run_of("b", "m2")).await?;
    Ok(())
}

pub async fn a_started_run_is_not_started_again(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    let again = || store.commit(&key, Commit { turn: starts(run("r")), ..message_commit("m2") });
    assert!(matches!(again().await, Err(Error::RunMoved { id, .. }) if id == "r"));
    store.commit(&key, step(&lease, "m1")).await?;
    finish(&store, &lease, RunStatus::Done).await?;
    assert!(matches!(again().await, Err(Error::RunMoved { .. })));
    assert_eq!(ids(&load(&store, &key).await?.tail), ["r", "m1"]);
    Ok(())
}

fn last(id: &str, lease: &Lease) -> Commit {
    Commit { turn: finishes(lease, RunStatus::Done), ..message_commit(id) }
}

pub async fn the_last_commit_of_a_turn_releases_the_lease(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("a", "r1")).await?;
    store.commit(&key, step(&old, "m1")).await?;
    let ended = store.commit(&key, last("m2", &old)).await?;
    assert_eq!((ended.seq, ended.repeated, ended.started), (Seq(3), false, None));
    assert_eq!(holder(&store, &key).await?, None);
    // The epoch grows with the release, so a later commit is fenced even before the next lease.
    assert!(ended.epoch > old.epoch);
    for late in [step(&old, "m3"), last("m3", &old)] {
        assert!(matches!(store.commit(&key, late).await, Err(Error::Fenced(_))));
    }
    let new = start(&store, &key, run_of("b", "r2")).await?;
    assert!(new.epoch > ended.epoch);
    assert!(matches!(store.commit(&key, step(&old, "m3")).await, Err(Error::Fenced(_))));
    Ok(())
}

pub async fn a_refused_or_repeated_commit_does_not_release_the_lease(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run_of("a", "r1")).await?;
    store.commit(&key, step(&lease, "m1")).await?;
    let wrong = Lease { epoch: lease.epoch + 1, ..lease.clone() };
    assert!(matches!(store.commit(&key, last("m2", &wrong)).await, Err(Error::Fenced(_))));
    assert!(store.commit(&key, last("m1", &lease)).await?.repeated);
    store.commit(&key, message_commit("of no turn")).await?;
    assert_eq!(holder(&store, &key).await?, Some("a".into()));
    store.commit(&key, step(&lease, "m2")).await?;
    Ok(())
}

pub async fn a_turn_ends_only_in_a_state_that_releases_the_lease(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    for status in [RunStatus::Queued, RunStatus::Running] {
        assert!(matches!(finish(&store, &lease, status).await, Err(Error::RunMoved { id, .. }) if id == "r"));
    }
    assert_eq!(holder(&store, &key).await?, Some(ME.into()));
    store.commit(&key, step(&lease, "m1")).await?;
    Ok(())
}

fn if_epoch(epoch: u64, id: &str) -> Commit {
    let start = Start {
        run: run(id),
        if_epoch: Some(epoch),
        supersedes: Vec::new(),
        settled: Vec::new(),
        options: None,
    };
    Commit { turn: TurnChange::Start(start), ..message_commit(id) }
}

pub async fn a_start_with_if_epoch_is_fenced_after_another_turn(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = turn(&store, &key, "m1").await?.epoch;
    let second = turn(&store, &key, "m2").await?.epoch;
    assert!(matches!(store.commit(&key, if_epoch(first, "m3")).await, Err(Error::Fenced(_))));
    // A turn without rows also changes the epoch.
    let started = Commit { turn: starts(run("empty")), ..Commit::default() };
    let empty = start_with(&store, &key, started).await?;
    let third = finish(&store, &empty, RunStatus::Cancelled).await?;
    assert_eq!(third.seq, Seq(4));
    assert!(matches!(store.commit(&key, if_epoch(second, "m3")).await, Err(Error::Fenced(_))));
    // A commit that belongs to no turn does not change the epoch.
    assert_eq!(store.commit(&key, message_commit("plain")).await?.epoch, third.epoch);
    let lease = start_with(&store, &key, if_epoch(third.epoch, "m3")).await?;
    let fourth = finish(&store, &lease, RunStatus::Done).await?.epoch;
    // Another session of the same name has other epochs.
    store.delete(&key).await?;
    session(&store, "s").await?;
    assert!(matches!(store.commit(&key, if_epoch(fourth, "m3")).await, Err(Error::Fenced(_))));
    Ok(())
}

pub async fn a_start_with_if_epoch_returns_the_shared_state(store: SharedStore) -> Result<()> {
    let (key, other) = (session(&store, "s").await?, session(&store, "other").await?);
    let set = |scope, key: &str, value: i64| StateChange { scope, key: key.into(), value: value.into() };
    let first = turn(&store, &key, "m1").await?.epoch;
    let state = vec![set(Scope::App, "a", 1), set(Scope::User, "u", 2), set(Scope::Session, "s", 3)];
    store.commit(&other, Commit { state, ..message_commit("m1") }).await?;
    let own = vec![set(Scope::User, "own", 4), set(Scope::Session, "own", 5)];
    let commit = Commit { state: own, ..if_epoch(first, "m2") };
    let started = store.commit(&key, commit).await?.started;
    let started = started.ok_or_else(|| Error::Fenced(key.clone()))?;
    let expected = [set(Scope::App, "a", 1), set(Scope::User, "u", 2), set(Scope::User, "own", 4)];
    assert_eq!(started.shared, expected);
    finish(&store, &started.lease, RunStatus::Done).await?;
    // Without if_epoch the caller has loaded the state.
    let started = store.commit(&key, start_commit(run("m3"))).await?.started;
    assert!(started.is_some_and(|started| started.shared.is_empty()));
    Ok(())
}

pub async fn a_start_does_not_overtake_the_queue(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("q")).await?;
    assert!(matches!(store.commit(&key, start_commit(run("m1"))).await, Err(Error::Busy(_))));
    assert!(store.withdraw(&key, withdrawal("q", RunStatus::Cancelled)).await?);
    start(&store, &key, run("m1")).await?;
    Ok(())
}

pub async fn a_recreated_session_fences_the_owner_of_the_deleted_one(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("a", "r")).await?;
    store.delete(&key).await?;
    assert!(matches!(store.commit(&key, step(&old, "m1")).await, Err(Error::NotFound(_))));
    session(&store, "s").await?;
    let late = || store.commit(&key, step(&old, "m1"));
    assert!(matches!(late().await, Err(Error::Fenced(_))));
    let new = start(&store, &key, run_of("b", "r")).await?;
    assert!(new.epoch > old.epoch);
    assert!(matches!(late().await, Err(Error::Fenced(_))));
    assert!(matches!(finish(&store, &old, RunStatus::Done).await, Err(Error::Fenced(_))));
    assert!(matches!(store.extend_draft(&old, "x".into()).await, Err(Error::Fenced(_))));
    assert_eq!(take_over(&store, &["a"], "c").await?, []);
    Ok(())
}
