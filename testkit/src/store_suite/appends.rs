//! An append is one step: all of it or nothing, once, at one place.

use super::{
    Shared,
    make::{changes, fact, ids, load, message, page, run, says, seqs, session, sets, sets_fact, ticket},
};
use session::{
    Append, Appended, Claim, Claimed, Error, FactChange, Result, RunStatus, RunUpdate, Scope, Seq, SessionKey,
};
use std::time::Duration;

pub async fn rows_come_back_in_the_order_in_which_they_were_appended(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    // Descending ids and one time for all: neither may decide.
    for n in (0..40_u64).rev() {
        let appended = store.append(&key, says(&format!("m{n:02}"))).await?;
        assert_eq!(appended, Appended { seq: Seq(40 - n), repeated: false, entered: None });
    }
    let expected: Vec<String> = (0..40).rev().map(|n| format!("m{n:02}")).collect();
    assert_eq!(ids(&load(&store, &key).await?.tail), expected);
    let read = store.read(&key, page(0, 100)).await?;
    assert_eq!(ids(&read), expected);
    assert_eq!(seqs(&read), (1..=40).collect::<Vec<_>>());
    Ok(())
}

/// A step that changes everything that a step can change.
async fn whole_step(store: &Shared, key: &SessionKey, id: &str) -> Result<Append> {
    let ticket = store.push(key, ticket(id)).await?;
    let run = store.start(run(key, id)).await?;
    Ok(Append {
        message: Some(message(id)),
        state: vec![sets(Scope::Session, "count", 1), sets(Scope::User, "count", 1)],
        facts: vec![FactChange::Set(fact("open", id, "1"))],
        run: Some(RunUpdate { id: run.id, status: RunStatus::Running, error: None }),
        takes: Some(ticket.number),
        ..Append::default()
    })
}

pub async fn a_repeated_message_changes_nothing(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = whole_step(&store, &key, "m1").await?;
    assert_eq!(
        store.append(&key, first.clone()).await?,
        Appended { seq: Seq(1), repeated: false, entered: None }
    );
    let undo = Append {
        state: vec![sets(Scope::Session, "count", 2), sets(Scope::User, "count", 2)],
        facts: vec![FactChange::Clear { kind: "open".into(), id: "m1".into() }],
        run: Some(RunUpdate { id: "m1".into(), status: RunStatus::Done, error: None }),
        ..says("m2")
    };
    store.append(&key, undo).await?;
    let before = load(&store, &key).await?;

    assert_eq!(store.append(&key, first).await?, Appended { seq: Seq(1), repeated: true, entered: None });
    let after = load(&store, &key).await?;
    assert_eq!((after.row, after.tail, after.state), (before.row, before.tail, before.state));
    assert!(after.facts.is_empty());
    assert_eq!(store.run(&key, "m1").await?.map(|run| run.status), Some(RunStatus::Done));
    assert_eq!(store.state_changes(&key, page(0, 100)).await?.len(), 4);
    Ok(())
}

pub async fn a_repeat_is_recognised_whatever_else_is_refused(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = granted(&store, &key, "old").await?;
    let ticket = store.push(&key, ticket("t")).await?;
    let step =
        Append { expected_seq: Some(Seq(0)), epoch: Some(lease), takes: Some(ticket.number), ..says("m1") };
    store.append(&key, step.clone()).await?;
    store.append(&key, says("m2")).await?;
    // The first answer was lost; meanwhile the session moved on and has another owner.
    granted(&store, &key, "new").await?;
    assert_eq!(store.append(&key, step).await?, Appended { seq: Seq(1), repeated: true, entered: None });
    Ok(())
}

/// Takes the lease, whoever has it.
async fn granted(store: &Shared, key: &SessionKey, owner: &str) -> Result<u64> {
    let claim = |displaces| Claim { owner: owner.into(), ttl: Duration::from_mins(1), displaces };
    match store.claim(key, claim(None)).await? {
        Claimed::Granted { lease, .. } => Ok(lease.epoch),
        Claimed::Held { epoch, .. } => match store.claim(key, claim(Some(epoch))).await? {
            Claimed::Granted { lease, .. } => Ok(lease.epoch),
            Claimed::Held { .. } => Err(Error::Fenced(key.clone())),
        },
    }
}

pub async fn the_same_id_in_another_session_is_another_message(store: Shared) -> Result<()> {
    let (one, two) = (session(&store, "one").await?, session(&store, "two").await?);
    store.append(&one, says("m1")).await?;
    assert_eq!(
        store.append(&two, says("m1")).await?,
        Appended { seq: Seq(1), repeated: false, entered: None }
    );
    Ok(())
}

pub async fn a_session_that_moved_on_is_a_conflict(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let at = |expected, id: &str| Append { expected_seq: Some(Seq(expected)), ..says(id) };
    store.append(&key, at(0, "m1")).await?;
    store.append(&key, at(1, "m2")).await?;
    for wrong in [0, 1, 3] {
        let refused = store.append(&key, at(wrong, "m3")).await;
        let Err(Error::Conflict { key: of, expected, found }) = refused else { return refused.map(drop) };
        assert_eq!((of, expected, found), (key.clone(), Seq(wrong), Seq(2)));
    }
    assert_eq!(store.append(&key, at(2, "m3")).await?.seq, Seq(3));
    Ok(())
}

pub async fn an_old_epoch_is_fenced(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, "old").await?;
    let with = |epoch, id: &str| Append { epoch: Some(epoch), ..says(id) };
    store.append(&key, with(old, "m1")).await?;
    let new = granted(&store, &key, "new").await?;
    assert!(new > old);
    assert!(matches!(store.append(&key, with(old, "m2")).await, Err(Error::Fenced(fenced)) if fenced == key));
    store.append(&key, with(new, "m3")).await?;
    // A step that claims nothing is for whoever may write without a turn.
    store.append(&key, says("m4")).await?;
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "m3", "m4"]);
    Ok(())
}

pub async fn a_step_of_facts_alone_takes_no_place(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    assert_eq!(store.append(&key, sets_fact(fact("a", "", "1"))).await?.seq, Seq(0));
    store.append(&key, says("m1")).await?;
    assert_eq!(store.append(&key, sets_fact(fact("a", "", "2"))).await?.seq, Seq(1));
    assert_eq!(store.append(&key, changes(vec![sets(Scope::App, "k", 1)])).await?.seq, Seq(2));
    assert_eq!(store.append(&key, says("m2")).await?.seq, Seq(3));
    assert_eq!(seqs(&load(&store, &key).await?.tail), [1, 3]);
    Ok(())
}

pub async fn a_refused_step_leaves_nothing_behind(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let whole = whole_step(&store, &key, "m1").await?;
    let before = load(&store, &key).await?.row;
    let gone = Append { takes: Some(u64::from(u32::MAX)), ..whole.clone() };
    let no_run = RunUpdate { id: "none".into(), status: RunStatus::Done, error: None };
    let refused = [
        store.append(&key, Append { expected_seq: Some(Seq(7)), ..whole.clone() }).await.err(),
        store.append(&key, Append { epoch: Some(7), ..whole.clone() }).await.err(),
        store.append(&key, gone).await.err(),
        store.append(&key, Append { run: Some(no_run), ..whole }).await.err(),
    ];
    assert!(matches!(
        refused,
        [
            Some(Error::Conflict { .. }),
            Some(Error::Fenced(_)),
            Some(Error::TicketGone { .. }),
            Some(Error::NoRun { .. })
        ]
    ));
    let after = load(&store, &key).await?;
    assert_eq!(after.row, before);
    assert!(after.tail.is_empty() && after.state.is_empty() && after.facts.is_empty());
    assert_eq!(store.waiting(&key, 10).await?.len(), 1);
    assert_eq!(store.run(&key, "m1").await?.map(|run| run.status), Some(RunStatus::Queued));
    assert!(store.state_changes(&key, page(0, 10)).await?.is_empty());
    Ok(())
}

pub async fn the_row_counts_what_was_appended(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let made = load(&store, &key).await?.row;
    for id in ["m1", "m2", "m3"] {
        store.append(&key, says(id)).await?;
    }
    let row = load(&store, &key).await?.row;
    assert_eq!((row.last_seq, row.total_tokens), (Seq(3), 30));
    assert_eq!(row.created_at.to_bits(), made.created_at.to_bits());
    assert!(row.updated_at >= made.updated_at);
    Ok(())
}
