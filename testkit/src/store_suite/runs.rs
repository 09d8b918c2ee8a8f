//! Runs: one for each request, changed by the steps that change them.

use super::{
    Shared,
    make::{changes, fact, message, run, says, session, sets, sets_fact},
};
use session::{Append, Error, NewRun, Result, RunStatus, RunUpdate, Scope, Seq};

fn update(id: &str, status: RunStatus) -> RunUpdate {
    RunUpdate { id: id.into(), status, error: None }
}

pub async fn a_run_begins_where_the_log_ends(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    store.append(&key, says("m1")).await?;
    store.append(&key, says("m2")).await?;
    let new = NewRun { idempotency_key: Some("once".into()), ..run(&key, "r1") };
    let started = store.start(new.clone()).await?;
    assert_eq!((started.started_after, started.last_seq), (Seq(2), Seq(2)));
    assert_eq!((&started.id, &started.key, started.status), (&new.id, &key, RunStatus::Queued));
    assert_eq!((&started.owner, &started.idempotency_key), (&new.owner, &new.idempotency_key));
    assert_eq!((started.error.clone(), started.created_at.to_bits()), (None, started.updated_at.to_bits()));
    assert_eq!(store.run(&key, "r1").await?, Some(started));
    assert_eq!(store.run(&key, "r2").await?, None);
    Ok(())
}

pub async fn a_run_may_begin_with_its_first_step(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    store.append(&key, says("m1")).await?;
    store.start(run(&key, "known")).await?;
    for (id, place) in [("new", 2), ("known", 3)] {
        let running = NewRun { status: RunStatus::Running, owner: "a".into(), ..run(&key, id) };
        let refused = Append { starts: Some(running.clone()), expected_seq: Some(Seq(9)), ..says("refused") };
        assert!(matches!(store.append(&key, refused).await, Err(Error::Conflict { .. })));
        assert!(store.run(&key, id).await?.is_none_or(|run| run.status == RunStatus::Queued));
        store.append(&key, Append { starts: Some(running), ..says(id) }).await?;
        let run = store.run(&key, id).await?.ok_or_else(|| Error::NotFound(key.clone()))?;
        assert_eq!((run.status, run.owner.as_str(), run.last_seq), (RunStatus::Running, "a", Seq(place)));
        assert_eq!(run.started_after, Seq(place - 1));
    }
    // One that is taken up again began where it began.
    let again = Some(NewRun { status: RunStatus::Running, owner: "b".into(), ..run(&key, "new") });
    store.append(&key, Append { starts: again, ..says("m8") }).await?;
    let new = store.run(&key, "new").await?.ok_or_else(|| Error::NotFound(key.clone()))?;
    assert_eq!((new.owner.as_str(), new.started_after, new.last_seq), ("b", Seq(1), Seq(4)));
    // One that ends with the step with which it begins.
    let starts = Some(NewRun { status: RunStatus::Running, ..run(&key, "short") });
    store.append(&key, Append { starts, run: Some(update("short", RunStatus::Done)), ..says("m9") }).await?;
    assert_eq!(store.run(&key, "short").await?.map(|run| run.status), Some(RunStatus::Done));
    Ok(())
}

pub async fn a_repeated_request_is_the_same_run(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    let once = |id: &str| NewRun { idempotency_key: Some("once".into()), ..run(&key, id) };
    store.start(once("r1")).await?;
    store.append(&key, Append { run: Some(update("r1", RunStatus::Done)), ..says("m1") }).await?;
    let again = store.start(once("r2")).await?;
    assert_eq!((again.id.as_str(), again.status), ("r1", RunStatus::Done));
    assert_eq!(store.start(run(&key, "r1")).await?, again);
    // Without a key every request is a new one, and another session's keys are its own.
    assert_eq!(store.start(run(&key, "r3")).await?.id, "r3");
    assert_eq!(store.start(run(&key, "r4")).await?.id, "r4");
    assert_eq!(store.start(NewRun { key: other, ..once("r5") }).await?.id, "r5");
    Ok(())
}

pub async fn a_run_with_a_key_begins_once(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let once = |owner: &str, status| NewRun {
        idempotency_key: Some("once".into()),
        owner: owner.into(),
        status,
        ..run(&key, "r")
    };
    store.start(once("a", RunStatus::Queued)).await?;
    let begins = |owner: &str, id: &str| Append { starts: Some(once(owner, RunStatus::Running)), ..says(id) };
    // Whoever is first, not whoever wrote it down.
    store.append(&key, begins("b", "m1")).await?;
    assert!(
        matches!(store.append(&key, begins("a", "m2")).await, Err(Error::RunBegun { id, .. }) if id == "r")
    );
    store.append(&key, begins("b", "m3")).await?;
    store.append(&key, Append { run: Some(update("r", RunStatus::Done)), ..Append::default() }).await?;
    assert!(matches!(store.append(&key, begins("a", "m4")).await, Err(Error::RunBegun { .. })));
    assert!(store.append(&key, begins("a", "m1")).await?.repeated, "a step that is stored is stored");
    assert_eq!(store.run(&key, "r").await?.map(|run| (run.owner, run.last_seq)), Some(("b".into(), Seq(2))));
    Ok(())
}

pub async fn a_run_changes_with_the_step_that_changes_it(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    store.start(run(&key, "r")).await?;
    let fails = RunUpdate { error: Some("broke".into()), ..update("r", RunStatus::Failed) };
    let with = |step: Append, run| Append { run: Some(run), ..step };
    let steps = [
        (with(says("m1"), update("r", RunStatus::Running)), (RunStatus::Running, 1, None)),
        (says("m2"), (RunStatus::Running, 1, None)),
        (
            with(changes(vec![sets(Scope::App, "k", 1)]), update("r", RunStatus::Waiting)),
            (RunStatus::Waiting, 3, None),
        ),
        (with(Append::default(), fails), (RunStatus::Failed, 3, Some("broke"))),
        (with(sets_fact(fact("a", "", "1")), update("r", RunStatus::Done)), (RunStatus::Done, 3, None)),
    ];
    for (step, (status, last_seq, error)) in steps {
        store.append(&key, step).await?;
        let run = store.run(&key, "r").await?.ok_or(Error::Closed)?;
        assert_eq!((run.status, run.last_seq.0, run.error.as_deref()), (status, last_seq, error));
        assert!(run.updated_at >= run.created_at);
    }
    Ok(())
}

pub async fn a_step_for_no_run_is_refused(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    store.start(run(&other, "r")).await?;
    let step =
        Append { message: Some(message("m1")), run: Some(update("r", RunStatus::Done)), ..Append::default() };
    let refused = store.append(&key, step).await;
    assert!(matches!(refused, Err(Error::NoRun { id, .. }) if id == "r"));
    Ok(())
}

pub async fn runs_come_newest_first(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    for id in ["b", "c", "a"] {
        store.start(run(&key, id)).await?;
    }
    store.append(&key, Append { run: Some(update("b", RunStatus::Done)), ..Append::default() }).await?;
    let listed = |limit| {
        let runs = store.runs(&key, limit);
        async { Ok::<_, Error>(runs.await?.into_iter().map(|run| run.id).collect::<Vec<_>>()) }
    };
    assert_eq!(listed(10).await?, ["a", "c", "b"]);
    assert_eq!(listed(2).await?, ["a", "c"]);
    Ok(())
}
