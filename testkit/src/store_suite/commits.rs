//! Contract tests of commits: atomicity, idempotency, sequence numbers.

use super::{
    SharedStore,
    make::{
        changes, enqueue, entry, finish, finishes, ids, key, load, message, message_commit, new_session,
        page, payload, run, run_of, run_row, run_with_key, seqs, session, sets, sets_entry, start,
        start_commit, starts, status, step, take_over, taken_lease, turn,
    },
};
use session::{
    Commit, Committed, Error, Lease, NewSession, OnConflict, PendingEntryChange, Result, RunStatus, Scope,
    Seq, SessionKey, Start, TailBudget, TurnChange,
};

pub async fn rows_are_read_in_commit_order(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    // Descending ids and equal times: neither may decide the order.
    for n in (0..40_u64).rev() {
        let committed = store.commit(&key, message_commit(&format!("m{n:02}"))).await?;
        assert_eq!((committed.seq, committed.repeated, committed.started), (Seq(40 - n), false, None));
    }
    let expected: Vec<String> = (0..40).rev().map(|n| format!("m{n:02}")).collect();
    assert_eq!(ids(&load(&store, &key).await?.tail), expected);
    let read = store.read(&key, page(0, 100)).await?;
    assert_eq!(ids(&read), expected);
    assert_eq!(seqs(&read), (1..=40).collect::<Vec<_>>());
    Ok(())
}

pub async fn the_messages_of_a_commit_get_consecutive_sequence_numbers(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    let commit = Commit {
        messages: ["m4", "m3", "m2"].map(message).into(),
        state: vec![sets(Scope::Session, "k", 1)],
        ..Commit::default()
    };
    assert_eq!(store.commit(&key, commit).await?.seq, Seq(4));
    let found = load(&store, &key).await?;
    assert_eq!((ids(&found.tail), seqs(&found.tail)), (vec!["m1", "m4", "m3", "m2"], vec![1, 2, 3, 4]));
    assert_eq!((found.row.last_seq, found.row.total_tokens), (Seq(4), 40));
    let logged = store.state_changes(&key, page(0, 10)).await?;
    assert_eq!(logged.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [Seq(4)]);
    Ok(())
}

/// A commit that uses every field: it starts a queued run.
async fn whole_commit(store: &SharedStore, key: &SessionKey, id: &str) -> Result<Commit> {
    enqueue(store, key, run(id)).await?;
    Ok(Commit {
        state: vec![sets(Scope::Session, "count", 1), sets(Scope::User, "count", 1)],
        pending: vec![PendingEntryChange::Set(entry("open", id, "1"))],
        title: Some("title".into()),
        ..start_commit(run(id))
    })
}

pub async fn a_repeated_commit_changes_nothing(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = whole_commit(&store, &key, "m1").await?;
    let Committed { seq, repeated, started, epoch } = store.commit(&key, first.clone()).await?;
    let lease = started.ok_or_else(|| Error::Fenced(key.clone()))?.lease;
    assert_eq!((seq, repeated, lease.epoch), (Seq(1), false, epoch));
    let undo = Commit {
        state: vec![sets(Scope::Session, "count", 2), sets(Scope::User, "count", 2)],
        pending: vec![PendingEntryChange::Clear { kind: "open".into(), id: "m1".into() }],
        turn: TurnChange::Finish { lease, status: RunStatus::Done, error: None },
        ..message_commit("m2")
    };
    let ended = store.commit(&key, undo).await?;
    let before = load(&store, &key).await?;

    let again = store.commit(&key, first).await?;
    assert_eq!(again, Committed { seq: Seq(1), repeated: true, started: None, epoch: ended.epoch });
    let after = load(&store, &key).await?;
    assert_eq!((after.row, after.tail, after.state), (before.row, before.tail, before.state));
    assert!(after.pending.is_empty());
    assert_eq!(status(&store, &key, "m1").await?, RunStatus::Done);
    assert_eq!(store.state_changes(&key, page(0, 100)).await?.len(), 4);
    Ok(())
}

pub async fn a_repeated_commit_is_recognised_before_other_conditions(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("m1")).await?;
    let first = Commit { expected_seq: Some(Seq(0)), ..start_commit(run("m1")) };
    let lease = store.commit(&key, first.clone()).await?.started.map(|started| started.lease);
    let lease = lease.ok_or_else(|| Error::Fenced(key.clone()))?;
    store.commit(&key, step(&lease, "m2")).await?;
    let last = Commit { turn: finishes(&lease, RunStatus::Done), ..message_commit("m3") };
    store.commit(&key, last.clone()).await?;
    // The acknowledgements were lost; meanwhile another owner has the lease.
    start(&store, &key, run_of("other", "m4")).await?;
    for (commit, seq) in [(first, 1), (step(&lease, "m2"), 2), (last, 3)] {
        let again = store.commit(&key, commit).await?;
        assert_eq!((again.seq, again.repeated, again.started), (Seq(seq), true, None));
    }
    assert_eq!(load(&store, &key).await?.tail.len(), 4);
    Ok(())
}

pub async fn the_last_message_decides_whether_a_commit_is_repeated(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let commit = Commit { messages: ["m1", "m2"].map(message).into(), ..Commit::default() };
    assert_eq!(store.commit(&key, commit.clone()).await?.seq, Seq(2));
    let again = store.commit(&key, commit).await?;
    assert_eq!((again.seq, again.repeated), (Seq(2), true));
    // The last message decides; the others are not stored.
    let other = Commit { messages: ["m3", "m2"].map(message).into(), ..Commit::default() };
    let again = store.commit(&key, other).await?;
    assert_eq!((again.seq, again.repeated), (Seq(2), true));
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "m2"]);
    assert_eq!(store.commit(&key, message_commit("m4")).await?.seq, Seq(3));
    Ok(())
}

pub async fn a_message_id_is_unique_in_its_session(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    for messages in [["m1", "m2"], ["m2", "m2"]] {
        let commit = Commit {
            messages: messages.map(message).into(),
            state: vec![sets(Scope::App, "k", 1)],
            ..Commit::default()
        };
        let refused = store.commit(&key, commit).await;
        let id = messages[0];
        assert!(
            matches!(&refused, Err(Error::DuplicateMessage { id: twice, .. }) if twice == id),
            "{refused:?}"
        );
        let found = load(&store, &key).await?;
        assert_eq!((ids(&found.tail), found.row.last_seq, found.state), (vec!["m1"], Seq(1), Vec::new()));
    }
    assert_eq!(store.commit(&key, message_commit("m2")).await?.seq, Seq(2));
    Ok(())
}

pub async fn the_same_id_in_another_session_is_another_message(store: SharedStore) -> Result<()> {
    let (one, two) = (session(&store, "one").await?, session(&store, "two").await?);
    store.commit(&one, message_commit("m1")).await?;
    let committed = store.commit(&two, message_commit("m1")).await?;
    assert_eq!((committed.seq, committed.repeated), (Seq(1), false));
    Ok(())
}

pub async fn a_wrong_expected_seq_is_a_conflict(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let at = |expected, id: &str| Commit { expected_seq: Some(Seq(expected)), ..message_commit(id) };
    store.commit(&key, at(0, "m1")).await?;
    store.commit(&key, at(1, "m2")).await?;
    for wrong in [0, 1, 3] {
        let refused = store.commit(&key, at(wrong, "m3")).await;
        let Err(Error::Conflict { key: of, expected, found }) = refused else { return refused.map(drop) };
        assert_eq!((of, expected, found), (key.clone(), Seq(wrong), Seq(2)));
    }
    assert_eq!(store.commit(&key, at(2, "m3")).await?.seq, Seq(3));
    Ok(())
}

pub async fn an_old_epoch_is_fenced(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("old", "m1")).await?;
    let taken = take_over(&store, &["old"], "new").await?;
    let new = taken_lease(&taken)?;
    assert!(new.epoch > old.epoch);
    let refused = store.commit(&key, step(&old, "m2")).await;
    assert!(matches!(refused, Err(Error::Fenced(fenced)) if fenced == key));
    store.commit(&key, step(&new, "m3")).await?;
    // The lease is not checked for a commit that belongs to no turn.
    store.commit(&key, message_commit("m4")).await?;
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "m3", "m4"]);
    Ok(())
}

pub async fn a_commit_of_facts_alone_takes_no_sequence_number(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    assert_eq!(store.commit(&key, sets_entry(entry("a", "", "1"))).await?.seq, Seq(0));
    store.commit(&key, message_commit("m1")).await?;
    assert_eq!(store.commit(&key, sets_entry(entry("a", "", "2"))).await?.seq, Seq(1));
    assert_eq!(store.commit(&key, changes(vec![sets(Scope::App, "k", 1)])).await?.seq, Seq(2));
    assert_eq!(store.commit(&key, message_commit("m2")).await?.seq, Seq(3));
    assert_eq!(seqs(&load(&store, &key).await?.tail), [1, 3]);
    Ok(())
}

/// Variants of a commit with the name of the expected refusal.
fn refused_variants(whole: &Commit, other: &Lease) -> Vec<(&'static str, Commit)> {
    let with = |turn| Commit { turn, ..whole.clone() };
    let stale = Start {
        run: run("m1"),
        if_epoch: Some(other.epoch),
        supersedes: Vec::new(),
        settled: Vec::new(),
        options: None,
    };
    vec![
        ("conflict", Commit { expected_seq: Some(Seq(7)), ..whole.clone() }),
        ("fenced", with(TurnChange::Step(other.clone()))),
        ("fenced", with(finishes(other, RunStatus::Done))),
        ("fenced", with(TurnChange::Start(stale))),
        ("busy", with(starts(run("overtakes")))),
        ("moved", with(starts(run_of("other", "m1")))),
        ("key", with(starts(run_with_key("m9", "once", "f")))),
    ]
}

fn refusal(answer: Result<Committed>) -> Result<&'static str> {
    match answer {
        Err(Error::Conflict { .. }) => Ok("conflict"),
        Err(Error::Fenced(_)) => Ok("fenced"),
        Err(Error::Busy(_)) => Ok("busy"),
        Err(Error::RunMoved { .. }) => Ok("moved"),
        Err(Error::KeyReused) => Ok("key"),
        answer => answer.map(|_| "none"),
    }
}

pub async fn a_refused_commit_changes_nothing(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    // A run in another session of the same user uses the idempotency key.
    let other = session(&store, "other").await?;
    let known = start(&store, &other, run_with_key("known", "once", "f")).await?;
    let whole = whole_commit(&store, &key, "m1").await?;
    let before = (load(&store, &key).await?.row, run_row(&store, &key, "m1").await?);
    for (expected, commit) in refused_variants(&whole, &known) {
        assert_eq!(refusal(store.commit(&key, commit).await)?, expected);
        let after = load(&store, &key).await?;
        assert_eq!((after.row, run_row(&store, &key, "m1").await?), before);
        assert!(after.tail.is_empty() && after.state.is_empty() && after.pending.is_empty());
        assert_eq!(store.runs(&key, 10).await?.len(), 1);
        assert_eq!(store.payload(&key, "m1").await?, Some(payload("m1")));
        assert!(store.state_changes(&key, page(0, 10)).await?.is_empty());
    }
    // The commit is admitted once its conditions hold.
    assert_eq!(store.commit(&key, whole).await?.seq, Seq(1));
    Ok(())
}

pub async fn a_session_with_a_bad_step_is_not_created_at_all(store: SharedStore) -> Result<()> {
    let bad: [Commit; 4] = [
        Commit { expected_seq: Some(Seq(9)), ..message_commit("m3") },
        start_commit(run("m3")),
        Commit { messages: ["m1", "m3"].map(message).into(), ..Commit::default() },
        Commit { turn: starts(run_with_key("m3", "once", "another")), ..message_commit("m3") },
    ];
    for bad in bad {
        let good = Commit {
            state: vec![sets(Scope::App, "a", 1), sets(Scope::User, "u", 1), sets(Scope::Session, "s", 1)],
            pending: vec![PendingEntryChange::Set(entry("f", "", "1"))],
            ..start_commit(run_with_key("m1", "once", "f"))
        };
        let new = NewSession {
            state: vec![sets(Scope::App, "first", 1)],
            steps: vec![good, bad],
            ..new_session(&key("s"), OnConflict::Fail)
        };
        assert!(store.create(new).await.is_err());
        assert!(store.load(&key("s"), TailBudget::ALL).await?.is_none());
        assert!(store.owners().await?.is_empty());
    }
    // The session key, the shared state and the idempotency key are unused.
    let key = session(&store, "s").await?;
    assert!(load(&store, &key).await?.state.is_empty());
    let lease = start(&store, &key, run_with_key("m1", "once", "another")).await?;
    finish(&store, &lease, RunStatus::Done).await?;
    turn(&store, &key, "m3").await?;
    Ok(())
}

pub async fn the_session_row_counts_messages_and_tokens(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let made = load(&store, &key).await?.row;
    for id in ["m1", "m2", "m3"] {
        store.commit(&key, message_commit(id)).await?;
    }
    let row = load(&store, &key).await?.row;
    assert_eq!((row.last_seq, row.total_tokens), (Seq(3), 30));
    assert_eq!(row.created_at.to_bits(), made.created_at.to_bits());
    assert!(row.updated_at >= made.updated_at);
    Ok(())
}

pub async fn a_message_with_other_content_does_not_make_a_commit_a_retry(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("old", "m1")).await?;
    let new = taken_lease(&take_over(&store, &["old"], "new").await?)?;
    // The successor stores the draft of an answer under the id of the complete answer.
    store.commit(&key, step(&new, "answer")).await?;
    assert!(store.commit(&key, step(&new, "answer")).await?.repeated);
    let whole = session::SessionMessage { content: "the whole answer".into(), ..message("answer") };
    let late = Commit { turn: finishes(&old, RunStatus::Done), ..Commit::message(whole.clone()) };
    let refused = store.commit(&key, late).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    let second = Commit { turn: TurnChange::Step(new.clone()), ..Commit::message(whole) };
    let refused = store.commit(&key, second).await;
    assert!(matches!(refused, Err(Error::DuplicateMessage { .. })), "{refused:?}");
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "answer"]);
    assert_eq!(status(&store, &key, "m1").await?, RunStatus::Running);
    Ok(())
}
