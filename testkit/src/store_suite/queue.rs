//! Contract tests of the queue of a session.

use super::{
    SharedStore,
    make::{
        enqueue, finish, finishes, ids, load, message_commit, payload, run, run_of, run_row, session, start,
        start_commit, start_with, starts, status, withdrawal,
    },
};
use session::{
    Activity, Commit, Error, OwnedRun, Result, RunStatus, Seq, SessionKey, Start, TurnChange, Withdrawal,
    run::SUPERSEDED,
};

async fn first_queued(store: &SharedStore, key: &SessionKey) -> Result<Option<String>> {
    Ok(store.activity(key).await?.first_queued.map(|run| run.id))
}

pub async fn one_commit_stores_a_queued_run_with_its_message(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    let before = load(&store, &key).await?.row;
    let queued = store.enqueue(&key, run_of("a", "q"), "the message".into()).await?;
    assert_eq!((queued.id.as_str(), &queued.key, queued.number), ("q", &key, 1));
    assert_eq!((queued.status, queued.owner.as_str()), (RunStatus::Queued, "a"));
    assert_eq!((queued.started_after, queued.last_seq), (Seq(1), Seq(1)));
    assert_eq!((queued.error.as_ref(), queued.ahead), (None, Some(0)));
    let ticket = queued.ticket;
    assert!(ticket.is_some());
    assert_eq!(store.run(&key, "q").await?, Some(queued));
    assert_eq!(store.payload(&key, "q").await?.as_deref(), Some("the message"));
    let first_queued = Some(OwnedRun { id: "q".into(), owner: "a".into(), ticket });
    assert_eq!(store.activity(&key).await?, Activity { first_queued, ..Activity::default() });
    // The message is appended to the log when the run starts.
    assert_eq!(load(&store, &key).await?.row, before);
    assert_eq!(store.payload(&key, "never queued").await?, None);
    Ok(())
}

pub async fn queued_runs_start_in_the_order_of_acceptance(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    for (id, ahead) in [("z", 0), ("a", 1), ("m", 2)] {
        assert_eq!(enqueue(&store, &key, run(id)).await?.ahead, Some(ahead));
        enqueue(&store, &other, run(id)).await?;
    }
    for id in ["z", "a", "m"] {
        for later in ["z", "a", "m", "new"].into_iter().filter(|other| *other != id) {
            let refused =
                store.commit(&key, Commit { turn: starts(run(later)), ..message_commit("refused") }).await;
            assert!(matches!(refused, Err(Error::Busy(_) | Error::RunMoved { .. })), "{later} before {id}");
        }
        assert_eq!(first_queued(&store, &key).await?.as_deref(), Some(id));
        let lease = start(&store, &key, run(id)).await?;
        assert_eq!(run_row(&store, &key, id).await?.ahead, None);
        finish(&store, &lease, RunStatus::Done).await?;
    }
    assert_eq!(ids(&load(&store, &key).await?.tail), ["z", "a", "m"]);
    assert_eq!(first_queued(&store, &key).await?, None);
    assert_eq!(first_queued(&store, &other).await?.as_deref(), Some("z"));
    Ok(())
}

pub async fn the_number_of_runs_ahead_falls_as_they_start(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    for id in ["a", "b", "c"] {
        enqueue(&store, &key, run(id)).await?;
    }
    let ahead = async || Ok::<_, Error>(run_row(&store, &key, "c").await?.ahead);
    assert_eq!(ahead().await?, Some(2));
    store.withdraw(&key, withdrawal("b", RunStatus::Cancelled)).await?;
    assert_eq!(ahead().await?, Some(1));
    finish(&store, &lease, RunStatus::Done).await?;
    start(&store, &key, run("a")).await?;
    assert_eq!(ahead().await?, Some(0));
    Ok(())
}

pub async fn a_queued_run_is_not_queued_again(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("q")).await?;
    enqueue(&store, &key, run("behind")).await?;
    let again = store.enqueue(&key, run("q"), "changed".into()).await;
    assert!(matches!(again, Err(Error::RunMoved { id, .. }) if id == "q"));
    assert_eq!(store.payload(&key, "q").await?, Some(payload("q")));
    assert_eq!(first_queued(&store, &key).await?.as_deref(), Some("q"));
    let lease = start(&store, &key, run("q")).await?;
    assert!(matches!(enqueue(&store, &key, run("q")).await, Err(Error::RunMoved { .. })));
    finish(&store, &lease, RunStatus::Done).await?;
    assert!(matches!(enqueue(&store, &key, run("q")).await, Err(Error::RunMoved { .. })));
    assert_eq!(status(&store, &key, "q").await?, RunStatus::Done);
    Ok(())
}

pub async fn a_queued_run_leaves_the_queue_when_it_starts(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("q")).await?;
    enqueue(&store, &key, run("behind")).await?;
    // Another commit precedes the start.
    store.commit(&key, message_commit("m1")).await?;
    let lease = start(&store, &key, run("q")).await?;
    assert_eq!(lease.run, 1);
    assert_eq!(store.payload(&key, "q").await?, None);
    let started = run_row(&store, &key, "q").await?;
    assert_eq!((started.status, started.number), (RunStatus::Running, 1));
    assert_eq!((started.started_after, started.last_seq), (Seq(1), Seq(2)));
    assert_eq!(first_queued(&store, &key).await?.as_deref(), Some("behind"));
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1", "q"]);
    Ok(())
}

pub async fn only_its_owner_starts_a_queued_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run_of("a", "q")).await?;
    let refused = store.commit(&key, start_commit(run_of("b", "q"))).await;
    assert!(matches!(refused, Err(Error::RunMoved { id, .. }) if id == "q"));
    assert_eq!(store.payload(&key, "q").await?, Some(payload("q")));
    start(&store, &key, run_of("a", "q")).await?;
    Ok(())
}

pub async fn a_queued_run_is_withdrawn_once(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("q")).await?;
    let why = Some("no longer wanted".to_owned());
    let withdraws = Withdrawal { error: why.clone(), ..withdrawal("q", RunStatus::Failed) };
    assert!(store.withdraw(&key, withdraws.clone()).await?);
    assert!(!store.withdraw(&key, withdraws).await?);
    let withdrawn = run_row(&store, &key, "q").await?;
    assert_eq!((withdrawn.status, withdrawn.error, withdrawn.ahead), (RunStatus::Failed, why, None));
    assert_eq!(store.payload(&key, "q").await?, None);
    let late = store.commit(&key, start_commit(run("q"))).await;
    assert!(matches!(late, Err(Error::RunMoved { .. })));
    assert!(load(&store, &key).await?.tail.is_empty());
    Ok(())
}

pub async fn only_its_owner_withdraws_a_queued_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    enqueue(&store, &key, run("q")).await?;
    let withdraws = withdrawal("q", RunStatus::Cancelled);
    let of_another = Withdrawal { owner: "another".into(), ..withdraws.clone() };
    let to_done = Withdrawal { status: RunStatus::Done, ..withdraws.clone() };
    assert!(!store.withdraw(&other, withdraws).await?);
    assert!(!store.withdraw(&key, of_another).await?);
    assert!(!store.withdraw(&key, to_done).await?);
    assert_eq!(status(&store, &key, "q").await?, RunStatus::Queued);
    assert_eq!(store.payload(&key, "q").await?, Some(payload("q")));
    Ok(())
}

pub async fn only_a_queued_run_is_withdrawn(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r")).await?;
    assert!(!store.withdraw(&key, withdrawal("r", RunStatus::Cancelled)).await?);
    finish(&store, &lease, RunStatus::Waiting).await?;
    assert!(!store.withdraw(&key, withdrawal("r", RunStatus::Cancelled)).await?);
    assert!(!store.withdraw(&key, withdrawal("unknown", RunStatus::Cancelled)).await?);
    assert_eq!(status(&store, &key, "r").await?, RunStatus::Waiting);
    Ok(())
}

pub async fn a_freed_ticket_is_not_reused(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    enqueue(&store, &key, run("q1")).await?;
    enqueue(&store, &key, run("q2")).await?;
    assert!(store.withdraw(&key, withdrawal("q1", RunStatus::Cancelled)).await?);
    enqueue(&store, &key, run("q3")).await?;
    assert_eq!(first_queued(&store, &key).await?.as_deref(), Some("q2"));
    let lease = start(&store, &key, run("q2")).await?;
    finish(&store, &lease, RunStatus::Done).await?;
    assert_eq!(first_queued(&store, &key).await?.as_deref(), Some("q3"));
    Ok(())
}

/// Starts a run that ends its turn with a question to a person.
async fn ask_person(store: &SharedStore, key: &SessionKey, id: &str) -> Result<()> {
    let lease = start(store, key, run(id)).await?;
    finish(store, &lease, RunStatus::Waiting).await.map(drop)
}

pub async fn an_answer_continues_the_waiting_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = start(&store, &key, run_of("a", "w")).await?;
    let asked = Commit { turn: finishes(&first, RunStatus::Waiting), ..message_commit("question") };
    store.commit(&key, asked).await?;
    assert_eq!(store.activity(&key).await?, Activity::default());
    super::make::turn(&store, &key, "between").await?;
    let second =
        start_with(&store, &key, Commit { turn: starts(run_of("b", "w")), ..message_commit("answer") })
            .await?;
    assert_eq!((second.run, second.epoch > first.epoch), (first.run, true));
    let resumed = run_row(&store, &key, "w").await?;
    assert_eq!((resumed.status, resumed.owner.as_str()), (RunStatus::Running, "b"));
    assert_eq!((resumed.started_after, resumed.last_seq), (Seq(0), Seq(5)));
    finish(&store, &second, RunStatus::Done).await?;
    assert_eq!(store.runs(&key, 10).await?.len(), 2);
    Ok(())
}

pub async fn an_answer_is_queued_like_any_message(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    ask_person(&store, &key, "w").await?;
    let lease = start(&store, &key, run("r")).await?;
    let queued = store.enqueue(&key, run_of("b", "w"), "answer".into()).await?;
    assert_eq!((queued.number, queued.status, queued.owner.as_str()), (1, RunStatus::Queued, "b"));
    assert_eq!((queued.started_after, queued.last_seq), (Seq(0), Seq(1)));
    assert_eq!(store.payload(&key, "w").await?.as_deref(), Some("answer"));
    let answer = || store.commit(&key, Commit { turn: starts(run_of("b", "w")), ..message_commit("answer") });
    assert!(matches!(answer().await, Err(Error::Busy(_))));
    finish(&store, &lease, RunStatus::Done).await?;
    answer().await?;
    let resumed = run_row(&store, &key, "w").await?;
    assert_eq!(
        (resumed.status, resumed.started_after, resumed.last_seq),
        (RunStatus::Running, Seq(0), Seq(3))
    );
    assert_eq!(store.payload(&key, "w").await?, None);
    Ok(())
}

fn settles(id: &str, questions: &[&str]) -> Commit {
    let supersedes = questions.iter().map(|id| (*id).to_owned()).collect();
    Commit {
        turn: TurnChange::Start(Start {
            run: run(id),
            if_epoch: None,
            supersedes,
            settled: Vec::new(),
            options: None,
        }),
        ..message_commit(id)
    }
}

async fn assert_superseded(store: &SharedStore, key: &SessionKey, id: &str) -> Result<()> {
    let run = run_row(store, key, id).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Cancelled, Some(SUPERSEDED)));
    assert_eq!((store.payload(key, id).await?, run.ahead), (None, None));
    Ok(())
}

pub async fn a_message_that_supersedes_a_question_cancels_its_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    ask_person(&store, &key, "w").await?;
    ask_person(&store, &key, "stays").await?;
    let refused = Commit { expected_seq: Some(Seq(0)), ..settles("m", &["w"]) };
    assert!(matches!(store.commit(&key, refused).await, Err(Error::Conflict { .. })));
    assert_eq!(status(&store, &key, "w").await?, RunStatus::Waiting);

    let lease = start_with(&store, &key, settles("m", &["w"])).await?;
    assert_superseded(&store, &key, "w").await?;
    assert_eq!(status(&store, &key, "stays").await?, RunStatus::Waiting);
    assert_eq!(status(&store, &key, "m").await?, RunStatus::Running);
    finish(&store, &lease, RunStatus::Done).await?;
    let late = store.commit(&key, Commit { turn: starts(run("w")), ..message_commit("late answer") }).await;
    assert!(matches!(late, Err(Error::RunMoved { id, .. }) if id == "w"));
    Ok(())
}

pub async fn an_answer_that_is_queued_behind_another_message_is_superseded(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    ask_person(&store, &key, "w").await?;
    enqueue(&store, &key, run("m")).await?;
    enqueue(&store, &key, run("w")).await?;
    start_with(&store, &key, settles("m", &["w"])).await?;
    assert_superseded(&store, &key, "w").await?;
    assert_eq!(first_queued(&store, &key).await?, None);
    Ok(())
}

pub async fn a_run_without_an_open_question_is_not_superseded(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let epoch = super::make::turn(&store, &key, "done").await?.epoch;
    let lease = start_with(&store, &key, settles("m", &["done", "unknown", "m"])).await?;
    assert_eq!(lease.epoch, epoch + 1);
    let done = run_row(&store, &key, "done").await?;
    assert_eq!((done.status, done.error), (RunStatus::Done, None));
    assert_eq!(status(&store, &key, "m").await?, RunStatus::Running);
    assert_eq!(store.run(&key, "unknown").await?, None);
    Ok(())
}
