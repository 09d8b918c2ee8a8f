//! The connection is cut when a write has been sent: before the server executes it, or before its answer arrives. Both times the
//! write is stored once, and its caller gets the result as if nothing had happened.

use crate::common::{Proxied, proxied};
use session::{ArtifactKey, Commit, GoneOwner, NewArtifact, Result, RunStatus, Seq, TakeOver, TurnChange};
use testkit::{
    store_suite::make::{
        enqueue, finish, finishes, ids, key, load, message_commit, payload, run, run_of, run_with_key,
        session, start, start_commit, status, step, withdrawal,
    },
    tcp_proxy::Delivery,
};

const COMMIT: &[u8] = b"COMMIT\0";
const BOTH: [Delivery; 2] = [Delivery::AnswerLost, Delivery::MessageLost];

fn cut(proxied: &Proxied, message: &[u8], delivery: Delivery) {
    proxied.proxy.cut_at(message, delivery);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_stored_once_whichever_of_its_commits_is_cut() -> Result<()> {
    for delivery in BOTH {
        let Some(proxied) = proxied().await else { return Ok(()) };
        let store = &proxied.store;
        let key = session(store, "s").await?;
        cut(&proxied, COMMIT, delivery);
        let lease = start(store, &key, run("r")).await?;
        assert!(proxied.proxy.has_cut());
        // A step is one statement. The first one prepares it, so that the next message is the statement itself.
        store.commit(&key, step(&lease, "m1")).await?;
        cut(&proxied, b"", delivery);
        let committed = store.commit(&key, step(&lease, "m2")).await?;
        assert!(proxied.proxy.has_cut());
        assert_eq!((committed.seq, committed.repeated), (Seq(3), false), "{delivery:?}");
        cut(&proxied, COMMIT, delivery);
        // A commit without a message has no id of its own.
        let ended = finish(store, &lease, RunStatus::Done).await?;
        assert!(proxied.proxy.has_cut());
        assert!(ended.epoch > lease.epoch);
        let found = load(&proxied.direct, &key).await?;
        assert_eq!(ids(&found.tail), ["r", "m1", "m2"], "{delivery:?}");
        assert_eq!(status(&proxied.direct, &key, "r").await?, RunStatus::Done);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_and_deleted_once() -> Result<()> {
    for delivery in BOTH {
        let Some(proxied) = proxied().await else { return Ok(()) };
        let store = &proxied.store;
        cut(&proxied, COMMIT, delivery);
        let key = session(store, "s").await?;
        assert!(proxied.proxy.has_cut());
        load(&proxied.direct, &key).await?;
        cut(&proxied, COMMIT, delivery);
        assert!(store.delete(&key).await?, "{delivery:?}");
        assert!(proxied.proxy.has_cut());
        assert!(!proxied.direct.delete(&key).await?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_queued_and_withdrawn_once() -> Result<()> {
    for delivery in BOTH {
        let Some(proxied) = proxied().await else { return Ok(()) };
        let store = &proxied.store;
        let key = session(store, "s").await?;
        start(store, &key, run("running")).await?;
        cut(&proxied, COMMIT, delivery);
        let queued = enqueue(store, &key, run_with_key("q", "once", "f")).await?;
        assert!(proxied.proxy.has_cut());
        assert_eq!((queued.id.as_str(), queued.ahead), ("q", Some(0)), "{delivery:?}");
        assert_eq!(store.payload(&key, "q").await?, Some(payload("q")));
        assert_eq!(store.runs(&key, 10).await?.len(), 2);
        cut(&proxied, COMMIT, delivery);
        assert!(store.withdraw(&key, withdrawal("q", RunStatus::Cancelled)).await?, "{delivery:?}");
        assert!(proxied.proxy.has_cut());
        assert_eq!(status(&proxied.direct, &key, "q").await?, RunStatus::Cancelled);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_reports_the_runs_of_its_lost_attempt() -> Result<()> {
    for delivery in BOTH {
        let Some(proxied) = proxied().await else { return Ok(()) };
        let store = &proxied.store;
        let key = session(store, "s").await?;
        let old = start(store, &key, run_of("gone", "r")).await?;
        enqueue(store, &key, run_of("gone", "q")).await?;
        cut(&proxied, COMMIT, delivery);
        let gone = vec![GoneOwner { name: "gone".into(), if_beats: None }];
        let taken = store.take_over(TakeOver { gone, owner: "new".into(), session: None }).await?;
        assert!(proxied.proxy.has_cut());
        let taken_ids: Vec<&str> = taken.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(taken_ids, ["r", "q"], "{delivery:?}");
        let lease = taken[0].lease().unwrap();
        assert!(lease.epoch > old.epoch);
        store.commit(&key, step(lease, "m1")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_of_a_draft_and_an_artifact_are_stored_once() -> Result<()> {
    for delivery in BOTH {
        let Some(proxied) = proxied().await else { return Ok(()) };
        let store = &proxied.store;
        let key = session(store, "s").await?;
        let lease = start(store, &key, run("r")).await?;
        // The first calls prepare the statements, so that the next message is the statement itself.
        store.extend_draft(&lease, "a".into()).await?;
        cut(&proxied, b"", delivery);
        store.extend_draft(&lease, "b".into()).await?;
        assert!(proxied.proxy.has_cut());
        let draft = load(&proxied.direct, &key).await?.draft.unwrap();
        assert_eq!(draft.chunks, ["a", "b"], "{delivery:?}");
        let artifact = ArtifactKey { session: key.clone(), name: "a.txt".into() };
        let part = || NewArtifact { part: "p".into(), mime_type: None, custom_metadata: "{}".into() };
        assert_eq!(store.save(&artifact, part()).await?, 0);
        cut(&proxied, b"", delivery);
        assert_eq!(store.save(&artifact, part()).await?, 1, "{delivery:?}");
        assert!(proxied.proxy.has_cut());
        assert_eq!(proxied.direct.versions(&artifact).await?, [0, 1]);
    }
    Ok(())
}

/// Further writes come between the lost attempt and the next one: the id of the write is still known.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_recognised_after_other_writes() -> Result<()> {
    let Some(proxied) = proxied().await else { return Ok(()) };
    let store = &proxied.store;
    let key = session(store, "s").await?;
    let lease = start(store, &key, run("r")).await?;
    proxied.proxy.cut_at(COMMIT, Delivery::AnswerLost);
    let ending = Commit { turn: finishes(&lease, RunStatus::Done), ..Commit::default() };
    let (ended, others) = tokio::join!(store.commit(&key, ending), async {
        // The session is free once the lost attempt is committed.
        let mut others = 0;
        while others < 5 {
            let next = message_commit(&format!("other {others}"));
            let is_over = status(&proxied.direct, &key, "r").await? == RunStatus::Done;
            if is_over {
                proxied.direct.commit(&key, next).await?;
                others += 1;
            }
        }
        Result::Ok(others)
    });
    assert_eq!(others?, 5);
    assert!(!ended?.repeated);
    Ok(())
}

/// A start whose answer is lost is resolved although the session is busy, by the run itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_taken_for_a_lost_answer() -> Result<()> {
    let Some(proxied) = proxied().await else { return Ok(()) };
    let store = &proxied.store;
    let key = session(store, "s").await?;
    let lease = start(&proxied.direct, &key, run("r")).await?;
    proxied.proxy.cut_all();
    let refused = store.commit(&key, start_commit(run("other"))).await;
    assert!(matches!(refused, Err(session::Error::Busy(_))), "{refused:?}");
    let fenced =
        Commit { turn: TurnChange::Step(session::Lease { epoch: 1, ..lease }), ..message_commit("m") };
    assert!(matches!(store.commit(&key, fenced).await, Err(session::Error::Fenced(_))));
    assert_eq!(ids(&load(store, &key).await?.tail), ["r"]);
    assert!(store.load(&self::key("none"), session::TailBudget::ALL).await?.is_none());
    Ok(())
}
