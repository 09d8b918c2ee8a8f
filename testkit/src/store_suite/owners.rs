//! Contract tests of owners: heartbeats, liveness and take-over.

use super::{
    SharedStore,
    make::{
        enqueue, finish, key, message_commit, payload, run, run_of, run_row, session, start, start_commit,
        status, step, take_over, taken_lease, turn, withdrawal,
    },
};
use session::{
    Commit, Error, GoneOwner, Liveness, OwnerClaim, OwnerStatus, Result, RunStatus, SessionKey, Start,
    TakeOver, TakenOver, TakenOverState, TurnChange, Withdrawal,
};
use std::collections::BTreeSet;

fn summary(taken: &[TakenOver]) -> Vec<(&str, &str, RunStatus)> {
    taken.iter().map(|run| (run.key.session_id.as_str(), run.id.as_str(), run.status())).collect()
}

async fn names(store: &SharedStore) -> Result<BTreeSet<String>> {
    Ok(store.owners().await?.into_iter().map(|owner| owner.name).collect())
}

/// A session in which `owner` has a running run and two queued ones.
async fn occupied(store: &SharedStore, name: &str, owner: &str) -> Result<SessionKey> {
    let key = session(store, name).await?;
    start(store, &key, run_of(owner, "running")).await?;
    for id in ["z", "a"] {
        enqueue(store, &key, run_of(owner, id)).await?;
    }
    Ok(key)
}

pub async fn only_queued_and_running_runs_have_an_owner(store: SharedStore) -> Result<()> {
    assert!(store.owners().await?.is_empty());
    let key = session(&store, "s").await?;
    for end in RunStatus::ALL.into_iter().filter(|status| !status.is_owned()) {
        let lease = start(&store, &key, run_of("ended", end.as_str())).await?;
        assert_eq!(names(&store).await?, ["ended".to_owned()].into());
        finish(&store, &lease, end).await?;
        assert!(store.owners().await?.is_empty(), "{end:?}");
    }
    occupied(&store, "s1", "a").await?;
    occupied(&store, "s2", "a").await?;
    let queue = session(&store, "s3").await?;
    enqueue(&store, &queue, run_of("b", "q")).await?;
    assert_eq!(store.owners().await?.len(), 2);
    assert_eq!(names(&store).await?, ["a", "b"].map(str::to_owned).into());
    // A waiting run has no owner and is not taken over.
    assert_eq!(take_over(&store, &["ended"], "c").await?, []);
    Ok(())
}

pub async fn a_running_run_is_taken_over_before_the_queue(store: SharedStore) -> Result<()> {
    let one = occupied(&store, "one", "gone").await?;
    occupied(&store, "two", "gone").await?;
    occupied(&store, "alive", "alive").await?;
    turn(&store, &session(&store, "idle").await?, "r").await?;
    let mut taken = take_over(&store, &["gone", "never seen"], "new").await?;
    // Runs are grouped by session; the order of sessions is unspecified.
    taken.sort_by(|a, b| a.key.cmp(&b.key));
    let expected = ["one", "two"].map(|name| {
        [("running", RunStatus::Running), ("z", RunStatus::Queued), ("a", RunStatus::Queued)]
            .map(|(id, status)| (name, id, status))
    });
    assert_eq!(summary(&taken), expected.concat());
    assert_eq!(names(&store).await?, ["alive", "new"].map(str::to_owned).into());
    for run in &taken {
        let stored = run_row(&store, &run.key, &run.id).await?;
        assert_eq!((stored.owner.as_str(), stored.status), ("new", run.status()));
        assert_eq!(stored.error, None);
        match &run.state {
            TakenOverState::Running { lease, .. } => assert_eq!(lease.run, stored.number),
            TakenOverState::Queued { ticket } => assert_eq!(Some(*ticket), stored.ticket),
        }
    }
    assert_eq!(store.payload(&one, "z").await?, Some(payload("z")));
    Ok(())
}

pub async fn a_displaced_owner_is_fenced(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("gone", "r")).await?;
    enqueue(&store, &key, run_of("gone", "q")).await?;
    let taken = take_over(&store, &["gone"], "new").await?;
    assert_eq!(summary(&taken), [("s", "r", RunStatus::Running), ("s", "q", RunStatus::Queued)]);
    let lease = taken_lease(&taken)?;
    assert!(lease.epoch > old.epoch);
    assert!(matches!(store.commit(&key, step(&old, "m1")).await, Err(Error::Fenced(_))));
    assert!(matches!(finish(&store, &old, RunStatus::Done).await, Err(Error::Fenced(_))));
    assert!(matches!(store.extend_draft(&old, "x".into()).await, Err(Error::Fenced(_))));
    let withdrawn = Withdrawal { owner: "gone".into(), ..withdrawal("q", RunStatus::Cancelled) };
    assert!(!store.withdraw(&key, withdrawn).await?);
    store.commit(&key, step(&lease, "m1")).await?;
    finish(&store, &lease, RunStatus::Interrupted).await?;
    let late = store.commit(&key, start_commit(run_of("gone", "q"))).await;
    assert!(matches!(late, Err(Error::RunMoved { id, .. }) if id == "q"));
    start(&store, &key, run_of("new", "q")).await?;
    Ok(())
}

pub async fn a_running_run_is_taken_over_with_its_options(store: SharedStore) -> Result<()> {
    let options = |taken: &[TakenOver]| match &taken[0].state {
        TakenOverState::Running { options, .. } => options.clone(),
        TakenOverState::Queued { .. } => Some("the run is queued".to_owned()),
    };
    let with_options = |id: &str, options: &str| {
        let commit = start_commit(run_of("gone", id));
        let TurnChange::Start(start) = commit.turn else { unreachable!() };
        let turn = TurnChange::Start(Start { options: Some(options.to_owned()), ..start });
        Commit { turn, ..commit }
    };
    // Started at once, and taken over twice.
    let key = session(&store, "s").await?;
    store.commit(&key, with_options("r", "{\"a\":1}")).await?;
    assert_eq!(options(&take_over(&store, &["gone"], "first").await?).as_deref(), Some("{\"a\":1}"));
    let taken = take_over(&store, &["first"], "second").await?;
    assert_eq!(options(&taken).as_deref(), Some("{\"a\":1}"));
    // They are not visible as the payload of a queued run, and are deleted when the run ends.
    assert_eq!(store.payload(&key, "r").await?, None);
    let lease = taken_lease(&taken)?;
    finish(&store, &lease, RunStatus::Waiting).await?;
    let answer = Commit { turn: start_commit(run_of("gone", "r")).turn, ..message_commit("answer") };
    store.commit(&key, answer).await?;
    assert_eq!(options(&take_over(&store, &["gone"], "third").await?), None);
    // Started from the queue: the options replace the message.
    let key = session(&store, "queued").await?;
    enqueue(&store, &key, run_of("gone", "q")).await?;
    store.commit(&key, with_options("q", "{}")).await?;
    assert_eq!(store.payload(&key, "q").await?, None);
    assert_eq!(options(&take_over(&store, &["gone"], "new").await?).as_deref(), Some("{}"));
    Ok(())
}

pub async fn a_run_is_taken_over_once(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    start(&store, &key, run_of("gone", "r")).await?;
    assert_eq!(take_over(&store, &["gone"], "first").await?.len(), 1);
    assert_eq!(take_over(&store, &["gone"], "second").await?, []);
    // The successor may die as well.
    let taken = take_over(&store, &["gone", "first"], "second").await?;
    assert_eq!(summary(&taken), [("s", "r", RunStatus::Running)]);
    assert_eq!(take_over(&store, &[], "third").await?, []);
    Ok(())
}

pub async fn a_take_over_may_be_restricted_to_a_session(store: SharedStore) -> Result<()> {
    let here = occupied(&store, "here", "gone").await?;
    let there = occupied(&store, "there", "gone").await?;
    let gone = vec![GoneOwner { name: "gone".into(), if_beats: None }];
    let change =
        |key: &SessionKey| TakeOver { gone: gone.clone(), owner: "new".into(), session: Some(key.clone()) };
    let taken = store.take_over(change(&here)).await?;
    assert_eq!(taken.len(), 3);
    assert!(taken.iter().all(|run| run.key == here));
    assert_eq!(run_row(&store, &there, "running").await?.owner, "gone");
    let none = key("none");
    let refused = store.take_over(change(&none)).await;
    assert!(matches!(refused, Err(Error::NotFound(missing)) if missing == none));
    Ok(())
}

pub async fn any_number_of_runs_is_taken_over(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("finished")).await?;
    finish(&store, &lease, RunStatus::Done).await?;
    for n in 0..1_000 {
        enqueue(&store, &key, run_of("gone", &format!("q{n}"))).await?;
    }
    let taken = take_over(&store, &["gone"], "new").await?;
    let expected: Vec<String> = (0..1_000).map(|n| format!("q{n}")).collect();
    assert_eq!(taken.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), expected);
    assert!(taken.iter().all(|run| run.status() == RunStatus::Queued));
    assert_eq!(run_row(&store, &key, "q999").await?.ahead, Some(999));
    start(&store, &key, run_of("new", "q0")).await?;
    Ok(())
}

pub async fn a_heartbeat_prevents_a_take_over(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let owner = store.claim_owner()?;
    start(&store, &key, run_of(owner.name(), "r")).await?;
    // A store whose processes have leases begins the lease before the run.
    let before = beats(&store, owner.name()).await?;
    for n in 1..=3 {
        assert_eq!(store.heartbeat().await?.displaced, 0);
        assert_eq!(beats(&store, owner.name()).await?, before + n);
    }
    let silent_since = |beats| {
        let gone = vec![GoneOwner { name: owner.name().into(), if_beats: Some(beats) }];
        store.take_over(TakeOver { gone, owner: "new".into(), session: None })
    };
    assert_eq!(silent_since(before + 2).await?, []);
    assert_eq!(run_row(&store, &key, "r").await?.owner, owner.name());
    assert_eq!(silent_since(before + 3).await?.len(), 1);
    assert_eq!(run_row(&store, &key, "r").await?.owner, "new");
    Ok(())
}

/// The heartbeats of the only owner, whose lease, if it has one, has not expired.
async fn beats(store: &SharedStore, name: &str) -> Result<u64> {
    let owners = store.owners().await?;
    let [OwnerStatus { name: owner, beats, is_expired }] = owners.as_slice() else {
        return Err(Error::Closed);
    };
    assert_eq!((owner.as_str(), is_expired.unwrap_or(false)), (name, false));
    Ok(*beats)
}

pub async fn a_heartbeat_returns_the_number_of_displaced_runs(store: SharedStore) -> Result<()> {
    let owner = store.claim_owner()?;
    // The first take-over precedes the first heartbeat of the process.
    for (name, displaced) in [("s1", 1), ("s2", 2)] {
        let key = session(&store, name).await?;
        start(&store, &key, run_of(owner.name(), "r")).await?;
        take_over(&store, &[owner.name()], "new").await?;
        assert_eq!(store.heartbeat().await?.displaced, displaced);
    }
    let key = occupied(&store, "s3", owner.name()).await?;
    take_over(&store, &[owner.name()], "new").await?;
    assert_eq!(store.heartbeat().await?.displaced, 5);
    assert_eq!(store.heartbeat().await?.displaced, 5);
    assert_eq!(status(&store, &key, "running").await?, RunStatus::Running);
    Ok(())
}

pub async fn an_owner_is_alive_until_its_claim_is_dropped(store: SharedStore) -> Result<()> {
    let (first, second) = (store.claim_owner()?, store.claim_owner()?);
    assert_ne!(first.name(), second.name());
    assert_eq!(OwnerClaim::process_of(first.name()), OwnerClaim::process_of(second.name()));
    let name = first.name().to_owned();
    assert_eq!(store.liveness(&name), Liveness::Alive);
    drop(first);
    assert_eq!(store.liveness(&name), Liveness::Dead);
    assert_eq!(store.liveness(second.name()), Liveness::Alive);
    store.commit(&session(&store, "s").await?, message_commit("m1")).await?;
    Ok(())
}
