//! Contract tests of runs.

use super::{
    SharedStore,
    make::{
        changes, enqueue, entry, finish, finishes, ids, load, message, message_commit, page, run, run_of,
        run_row, session, sets, sets_entry, start, start_commit, start_with, starts, status, step, take_over,
        taken_lease, turn, withdrawal,
    },
};
use session::{
    Commit, Error, Lease, NewRun, Result, RunStatus, Scope, Seq, SessionKey, SettledMessage, Start,
    StateChange, TurnChange,
};

pub async fn a_run_starts_where_the_log_ends(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    store.commit(&key, message_commit("m2")).await?;
    let lease = start(&store, &key, run_of("a", "r1")).await?;
    let run = run_row(&store, &key, "r1").await?;
    assert_eq!((run.id.as_str(), &run.key, run.number), ("r1", &key, lease.run));
    assert_eq!((run.status, run.owner.as_str()), (RunStatus::Running, "a"));
    assert_eq!((run.started_after, run.last_seq), (Seq(2), Seq(3)));
    assert_eq!((run.error.as_ref(), run.ahead), (None, None));
    assert_eq!(run.created_at.to_bits(), run.updated_at.to_bits());
    assert!(run.created_at > 1_600_000_000.0);
    assert_eq!(store.run(&key, "r2").await?, None);
    Ok(())
}

pub async fn a_refused_start_creates_no_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let refused = Commit { expected_seq: Some(Seq(9)), ..start_commit(run("r")) };
    assert!(matches!(store.commit(&key, refused).await, Err(Error::Conflict { .. })));
    assert_eq!(store.run(&key, "r").await?, None);
    assert_eq!(start(&store, &key, run("r")).await?.run, 1);
    Ok(())
}

pub async fn a_run_that_must_be_new_is_refused_if_its_id_is_known(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let new = |id: &str| NewRun { is_new: true, ..run_of("other", id) };
    for status in [RunStatus::Waiting, RunStatus::Done] {
        let id = status.as_str();
        let lease = start(&store, &key, NewRun { is_new: true, ..run(id) }).await?;
        finish(&store, &lease, status).await?;
    }
    start(&store, &key, run("running")).await?;
    enqueue(&store, &key, NewRun { is_new: true, ..run("queued") }).await?;
    for id in ["waiting", "done", "running", "queued"] {
        let before = run_row(&store, &key, id).await?;
        let message = Commit { messages: vec![message("m")], turn: starts(new(id)), ..Commit::default() };
        assert!(matches!(store.commit(&key, message).await, Err(Error::RunExists { .. })), "{id}");
        assert!(matches!(enqueue(&store, &key, new(id)).await, Err(Error::RunExists { .. })), "{id}");
        assert_eq!(run_row(&store, &key, id).await?, before);
    }
    assert_eq!(load(&store, &key).await?.row.last_seq, Seq(3), "nothing was appended");
    Ok(())
}

pub async fn the_last_commit_of_a_turn_stores_status_and_error(store: SharedStore) -> Result<()> {
    let ends = [
        (RunStatus::Done, None),
        (RunStatus::Failed, Some("broke")),
        (RunStatus::Cancelled, None),
        (RunStatus::Interrupted, Some("gone")),
        (RunStatus::Waiting, None),
    ];
    for (end, error) in ends {
        let key = session(&store, end.as_str()).await?;
        let lease = start(&store, &key, run("r")).await?;
        let steps = [
            (step(&lease, "m1"), (RunStatus::Running, 1)),
            (message_commit("plain"), (RunStatus::Running, 1)),
            (
                Commit { turn: TurnChange::Step(lease.clone()), ..changes(vec![sets(Scope::App, "k", 1)]) },
                (RunStatus::Running, 1),
            ),
            (
                Commit {
                    turn: TurnChange::Finish {
                        lease: lease.clone(),
                        status: end,
                        error: error.map(str::to_owned),
                    },
                    ..sets_entry(entry("a", "", "1"))
                },
                (end, 4),
            ),
        ];
        for (commit, (status, last_seq)) in steps {
            store.commit(&key, commit).await?;
            let run = run_row(&store, &key, "r").await?;
            assert_eq!((run.status, run.last_seq.0), (status, last_seq));
            assert!(run.updated_at >= run.created_at);
        }
        assert_eq!(run_row(&store, &key, "r").await?.error.as_deref(), error);
    }
    Ok(())
}

/// Tries every transition on an ended run.
async fn try_all(store: &SharedStore, lease: &Lease, id: &str) -> Result<()> {
    let key = &lease.key;
    let again = Commit { turn: starts(run(id)), ..message_commit("again") };
    assert!(matches!(store.commit(key, again).await, Err(Error::RunMoved { .. })));
    assert!(matches!(store.commit(key, step(lease, "step")).await, Err(Error::Fenced(_))));
    assert!(matches!(enqueue(store, key, run(id)).await, Err(Error::RunMoved { .. })));
    for status in RunStatus::ALL {
        assert!(matches!(finish(store, lease, status).await, Err(Error::Fenced(_))));
        assert!(!store.withdraw(key, withdrawal(id, status)).await?);
    }
    assert_eq!(take_over(store, &["me"], "other").await?, []);
    assert!(matches!(store.commit(key, cancels(id, "cancel")).await, Err(Error::RunMoved { .. })));
    let supersedes = vec![id.to_owned()];
    let other = Start { run: run("other"), if_epoch: None, supersedes, settled: Vec::new(), options: None };
    let lease =
        start_with(store, key, Commit { turn: TurnChange::Start(other), ..message_commit("other") }).await?;
    finish(store, &lease, RunStatus::Done).await.map(drop)
}

pub async fn a_terminal_state_never_changes(store: SharedStore) -> Result<()> {
    for end in RunStatus::ALL.into_iter().filter(|status| status.is_terminal()) {
        let key = session(&store, end.as_str()).await?;
        let lease = start(&store, &key, run("r")).await?;
        finish(&store, &lease, end).await?;
        let ended = run_row(&store, &key, "r").await?;
        try_all(&store, &lease, "r").await?;
        assert_eq!(run_row(&store, &key, "r").await?, ended);
    }
    Ok(())
}

fn cancels(run: &str, message: &str) -> Commit {
    let turn = TurnChange::Cancel { run: run.to_owned(), error: Some("withdrawn".to_owned()) };
    Commit { turn, ..message_commit(message) }
}

pub async fn a_waiting_run_is_cancelled_with_its_last_message(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    assert!(
        matches!(store.commit(&key, cancels("r", "m")).await, Err(Error::RunMoved { .. })),
        "the run is running"
    );
    let waiting = finish(&store, &lease, RunStatus::Waiting).await?;
    assert!(matches!(store.commit(&key, cancels("none", "m")).await, Err(Error::RunMoved { .. })));
    let stale = Commit { expected_seq: Some(Seq(9)), ..cancels("r", "m") };
    assert!(matches!(store.commit(&key, stale).await, Err(Error::Conflict { .. })));
    enqueue(&store, &key, run("queued")).await?;
    let cancelled = store.commit(&key, cancels("r", "m")).await?;
    assert!(cancelled.epoch > waiting.epoch, "cached copies are invalidated");
    let ended = run_row(&store, &key, "r").await?;
    assert_eq!((ended.status, ended.error.as_deref()), (RunStatus::Cancelled, Some("withdrawn")));
    assert_eq!(read_run(&store, &lease, 10).await?, ["r", "m"]);
    assert!(store.commit(&key, cancels("r", "m")).await?.repeated);
    assert_eq!(status(&store, &key, "queued").await?, RunStatus::Queued);
    start(&store, &key, run("queued")).await.map(drop)
}

pub async fn a_waiting_run_is_not_cancelled_while_another_one_runs(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    finish(&store, &lease, RunStatus::Waiting).await?;
    let other = start(&store, &key, run("other")).await?;
    assert!(matches!(store.commit(&key, cancels("r", "m")).await, Err(Error::Busy(_))));
    store.commit(&key, step(&other, "step")).await?;
    finish(&store, &other, RunStatus::Done).await?;
    store.commit(&key, cancels("r", "m")).await?;
    assert_eq!(status(&store, &key, "r").await?, RunStatus::Cancelled);
    Ok(())
}

pub async fn a_lease_of_another_session_is_fenced(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    let lease = start(&store, &other, run("r")).await?;
    let steps =
        [step(&lease, "m1"), Commit { turn: finishes(&lease, RunStatus::Done), ..message_commit("m1") }];
    for commit in steps {
        assert!(matches!(store.commit(&key, commit).await, Err(Error::Fenced(fenced)) if fenced == key));
    }
    assert_eq!(status(&store, &other, "r").await?, RunStatus::Running);
    Ok(())
}

pub async fn runs_are_listed_newest_first(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    turn(&store, &key, "b").await?;
    for id in ["c", "a"] {
        enqueue(&store, &key, run(id)).await?;
    }
    let other = session(&store, "other").await?;
    enqueue(&store, &other, run("elsewhere")).await?;
    let listed = async |limit| {
        let runs = store.runs(&key, limit).await?;
        Ok::<_, Error>(runs.into_iter().map(|run| (run.id, run.number)).collect::<Vec<_>>())
    };
    let expected = [("a", 3), ("c", 2), ("b", 1)].map(|(id, number)| (id.to_owned(), number));
    assert_eq!(listed(10).await?, expected);
    assert_eq!(listed(2).await?, expected[..2]);
    assert_eq!(listed(0).await?, []);
    Ok(())
}

async fn read_run(store: &SharedStore, lease: &Lease, limit: usize) -> Result<Vec<String>> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let rows = store.read_run(&lease.key, lease.run, page(after, limit)).await?;
        assert!(rows.len() <= limit);
        let Some(last) = rows.last() else { return Ok(found) };
        after = last.seq.0;
        found.extend(ids(&rows).into_iter().map(str::to_owned));
    }
}

/// Three runs whose rows are interleaved with each other and with rows of no run.
async fn interleaved(store: &SharedStore, key: &SessionKey) -> Result<[Lease; 3]> {
    store.commit(key, message_commit("before")).await?;
    let first = start(store, key, run("a1")).await?;
    store.commit(key, step(&first, "a2")).await?;
    store.commit(key, message_commit("between")).await?;
    store.commit(key, Commit { turn: finishes(&first, RunStatus::Waiting), ..message_commit("a3") }).await?;
    enqueue(store, key, run("c1")).await?;
    enqueue(store, key, run("a1")).await?;
    let third = start(store, key, run("c1")).await?;
    store.commit(key, Commit { turn: finishes(&third, RunStatus::Done), ..message_commit("c2") }).await?;
    let again = Commit { turn: starts(run("a1")), ..message_commit("a4") };
    let first = start_with(store, key, again).await?;
    store.commit(key, step(&first, "a5")).await?;
    store.commit(key, message_commit("between again")).await?;
    finish(store, &first, RunStatus::Done).await?;
    store.commit(key, message_commit("after")).await?;
    let last = start(store, key, run("d1")).await?;
    store.commit(key, step(&last, "d2")).await?;
    store.commit(key, message_commit("at the end")).await?;
    Ok([first, third, last])
}

pub async fn read_run_returns_only_rows_of_the_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let [first, third, last] = interleaved(&store, &key).await?;
    for limit in [1, 2, 3, 100] {
        assert_eq!(read_run(&store, &first, limit).await?, ["a1", "a2", "a3", "a4", "a5"]);
        assert_eq!(read_run(&store, &third, limit).await?, ["c1", "c2"]);
        assert_eq!(read_run(&store, &last, limit).await?, ["d1", "d2"]);
    }
    let unknown = Lease { run: 99, ..last.clone() };
    assert!(read_run(&store, &unknown, 10).await?.is_empty());
    assert!(store.read_run(&key, last.run, page(0, 0)).await?.is_empty());
    assert!(store.read_run(&key, last.run, page(u64::MAX, 10)).await?.is_empty());
    Ok(())
}

pub async fn a_run_that_was_taken_over_keeps_its_rows(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = start(&store, &key, run_of("a", "r1")).await?;
    store.commit(&key, step(&old, "r2")).await?;
    let new = taken_lease(&take_over(&store, &["a"], "b").await?)?;
    assert!(matches!(store.commit(&key, step(&old, "r3")).await, Err(Error::Fenced(_))));
    store.commit(&key, step(&new, "r4")).await?;
    store.commit(&key, Commit { turn: finishes(&new, RunStatus::Done), ..message_commit("r5") }).await?;
    assert_eq!(read_run(&store, &new, 10).await?, ["r1", "r2", "r4", "r5"]);
    let run = run_row(&store, &key, "r1").await?;
    assert_eq!((run.owner.as_str(), run.status, run.last_seq), ("b", RunStatus::Done, Seq(4)));
    Ok(())
}

pub async fn a_commit_of_a_turn_may_change_state_alone(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    let state: Vec<StateChange> = vec![sets(Scope::Session, "k", 1)];
    let commit = Commit { turn: TurnChange::Step(lease.clone()), ..changes(state) };
    assert_eq!(store.commit(&key, commit).await?.seq, Seq(2));
    finish(&store, &lease, RunStatus::Done).await?;
    assert_eq!(read_run(&store, &lease, 10).await?, ["r"]);
    assert_eq!(load(&store, &key).await?.row.last_seq, Seq(2));
    Ok(())
}

pub async fn a_settled_message_belongs_to_the_run_that_it_settles(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let asked = start(&store, &key, run("asked")).await?;
    finish(&store, &asked, RunStatus::Waiting).await?;
    let settles = |id: &str, run: Option<&str>| SettledMessage { id: id.into(), run: run.map(str::to_owned) };
    let start = Start {
        supersedes: vec!["asked".to_owned()],
        settled: vec![settles("withdrawn", Some("asked")), settles("unknown", None)],
        ..new_start("new")
    };
    let messages = ["withdrawn", "unknown", "new"].map(message).into();
    let commit = Commit { messages, turn: TurnChange::Start(start), ..Commit::default() };
    let new = start_with(&store, &key, commit).await?;
    let rows = async |run: u64| store.read_run(&key, run, page(0, 10)).await;
    assert_eq!(ids(&rows(asked.run).await?), ["asked", "withdrawn"]);
    assert_eq!(ids(&rows(new.run).await?), ["new"]);
    assert_eq!(ids(&load(&store, &key).await?.tail), ["asked", "withdrawn", "unknown", "new"]);
    let superseded = run_row(&store, &key, "asked").await?;
    assert_eq!((superseded.status, superseded.last_seq), (RunStatus::Cancelled, Seq(2)));
    Ok(())
}

fn new_start(id: &str) -> Start {
    Start { run: run(id), if_epoch: None, supersedes: Vec::new(), settled: Vec::new(), options: None }
}
