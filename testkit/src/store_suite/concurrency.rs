//! Contract tests of concurrent calls: each behaves as if it ran alone.

use super::{
    SharedStore,
    make::{
        changes, enqueue, finish, ids, key, load, message, message_commit, new_session, page, run, run_of,
        run_with_key, seqs, session, sets, start, starts, together, turn,
    },
};
use session::{Commit, Error, NewSession, OnConflict, Result, RunStatus, Scope, Seq};
use std::{collections::BTreeSet, future::poll_fn, sync::Arc, task::Poll};

const MANY: u64 = 64;

pub async fn one_of_many_concurrent_creates_succeeds(store: SharedStore) -> Result<()> {
    let create = |_| {
        let store = Arc::clone(&store);
        async move { store.create(new_session(&key("s"), OnConflict::Fail)).await }
    };
    let answers = together((0..MANY).map(create)).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Error::Exists(_)))));
    Ok(())
}

pub async fn concurrent_creates_with_keep_return_the_same_session(store: SharedStore) -> Result<()> {
    let create = |_| {
        let store = Arc::clone(&store);
        async move { store.create(new_session(&key("s"), OnConflict::Keep)).await }
    };
    let rows = together((0..MANY).map(create)).await.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(rows.iter().all(|row| *row == rows[0]));
    Ok(())
}

pub async fn concurrent_creates_do_not_exceed_the_quota(store: SharedStore) -> Result<()> {
    let create = |n: u64| {
        let store = Arc::clone(&store);
        let new = new_session(&key(&format!("s{n}")), OnConflict::Fail);
        async move { store.create(NewSession { quota: Some(5), ..new }).await }
    };
    let answers = together((0..MANY).map(create)).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Error::QuotaReached { .. }))));
    Ok(())
}

pub async fn concurrent_commits_to_many_sessions_are_independent(store: SharedStore) -> Result<()> {
    let append = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            let key = session(&store, &format!("s{n}")).await?;
            for m in 1..=10_u64 {
                let committed = store.commit(&key, message_commit(&format!("m{m}"))).await?;
                assert_eq!(committed.seq, Seq(m));
            }
            load(&store, &key).await
        }
    };
    for found in together((0..MANY).map(append)).await {
        let found = found?;
        assert_eq!(seqs(&found.tail), (1..=10).collect::<Vec<_>>());
        assert_eq!(found.row.total_tokens, 100);
    }
    Ok(())
}

pub async fn concurrent_commits_to_one_session_leave_no_gap(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let commit = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move {
            store.commit(&key, message_commit(&format!("m{n}"))).await.map(|committed| (committed.seq.0, n))
        }
    };
    let seqs_and_ids = together((0..200).map(commit)).await.into_iter().collect::<Result<BTreeSet<_>>>()?;
    let rows = store.read(&key, page(0, 1000)).await?;
    assert_eq!(seqs(&rows), (1..=200).collect::<Vec<_>>());
    // Each row has the sequence number that its commit returned.
    let expected: Vec<String> = seqs_and_ids.iter().map(|(_, n)| format!("m{n}")).collect();
    assert_eq!(ids(&rows), expected);
    Ok(())
}

pub async fn concurrent_commits_of_one_message_store_it_once(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let commit = |_| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { store.commit(&key, message_commit("m")).await }
    };
    let answers = together((0..MANY).map(commit)).await.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(answers.iter().all(|committed| committed.seq == Seq(1)));
    assert_eq!(answers.iter().filter(|committed| !committed.repeated).count(), 1);
    assert_eq!(load(&store, &key).await?.tail.len(), 1);
    Ok(())
}

pub async fn refused_commits_do_not_affect_concurrent_ones(store: SharedStore) -> Result<()> {
    let good = session(&store, "good").await?;
    turn(&store, &good, "ended").await?;
    let commit = |n: u64| {
        let (store, good) = (Arc::clone(&store), good.clone());
        async move {
            let step = message_commit(&format!("m{n}"));
            match n % 4 {
                0 => store.commit(&key("missing"), step).await,
                1 => store.commit(&good, Commit { expected_seq: Some(Seq(1_000_000)), ..step }).await,
                2 => store.commit(&good, Commit { turn: starts(run("ended")), ..step }).await,
                3.. => store.commit(&good, step).await,
            }
        }
    };
    let answers = together((0..200).map(commit)).await;
    for (n, answer) in answers.iter().enumerate() {
        match n % 4 {
            0 => assert!(matches!(answer, Err(Error::NotFound(_)))),
            1 => assert!(matches!(answer, Err(Error::Conflict { .. }))),
            2 => assert!(matches!(answer, Err(Error::RunMoved { .. }))),
            3.. => assert!(answer.is_ok()),
        }
    }
    let rows = store.read(&good, page(0, 1000)).await?;
    assert_eq!(seqs(&rows), (1..=52).collect::<Vec<_>>());
    Ok(())
}

pub async fn one_of_many_concurrent_starts_is_admitted(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let starts = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { start(&store, &key, run_of(&format!("owner {n}"), &format!("r{n}"))).await.map(|_| n) }
    };
    let answers = together((0..MANY).map(starts)).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Error::Busy(_)))), "{answers:?}");
    let admitted: Vec<u64> = answers.into_iter().filter_map(Result::ok).collect();
    assert_eq!(admitted.len(), 1);
    let running = store.activity(&key).await?.running.map(|run| run.owner);
    assert_eq!(running, Some(format!("owner {}", admitted[0])));
    assert_eq!(store.runs(&key, 100).await?.len(), 1);
    Ok(())
}

pub async fn concurrently_queued_messages_start_in_ticket_order(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let queues = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { enqueue(&store, &key, run(&format!("q{n}"))).await }
    };
    let queued = together((0..MANY).map(queues)).await.into_iter().collect::<Result<Vec<_>>>()?;
    let mut order: Vec<(Option<u64>, u64, String)> =
        queued.into_iter().map(|run| (run.ahead, run.number, run.id)).collect();
    order.sort();
    let positions: Vec<_> = order.iter().map(|(ahead, number, _)| (*ahead, *number)).collect();
    assert_eq!(positions, (0..MANY).map(|n| (Some(n), n + 1)).collect::<Vec<_>>());
    for (_, _, id) in &order {
        let lease = start(&store, &key, run(id)).await?;
        finish(&store, &lease, RunStatus::Done).await?;
    }
    let started: Vec<String> = order.into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(ids(&load(&store, &key).await?.tail), started);
    Ok(())
}

pub async fn concurrent_requests_with_one_idempotency_key_become_one_run(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let sends = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { enqueue(&store, &key, run_with_key(&format!("r{n}"), "once", "f")).await }
    };
    let (mut accepted, mut duplicates) = (Vec::new(), BTreeSet::new());
    for answer in together((0..MANY).map(sends)).await {
        match answer {
            Err(Error::Duplicate { id, .. }) => drop(duplicates.insert(id)),
            answer => accepted.push(answer?.id),
        }
    }
    assert_eq!((accepted.len(), duplicates), (1, accepted.into_iter().collect()));
    assert_eq!(store.runs(&key, 100).await?.len(), 1);
    Ok(())
}

pub async fn concurrent_changes_of_user_state_are_all_kept(store: SharedStore) -> Result<()> {
    let change = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            let key = session(&store, &format!("s{n}")).await?;
            store.commit(&key, changes(vec![sets(Scope::User, &format!("k{n}"), n)])).await
        }
    };
    together((0..MANY).map(change)).await.into_iter().collect::<Result<Vec<_>>>()?;
    let state = load(&store, &key("s0")).await?.state;
    let values: BTreeSet<Option<u64>> = state.iter().map(|change| change.value.as_u64()).collect();
    assert_eq!(values, (0..MANY).map(Some).collect());
    Ok(())
}

/// Each future is dropped after its first poll: the commit is stored completely or not at all.
pub async fn a_dropped_commit_future_is_atomic(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for n in 0..20_u64 {
        let step = Commit {
            messages: vec![message(&format!("m{n}"))],
            state: vec![sets(Scope::Session, &format!("m{n}"), n)],
            ..Commit::default()
        };
        let mut answer = store.commit(&key, step);
        poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_ready())).await;
    }
    // After this commit no earlier one is in flight.
    store.commit(&key, message_commit("last")).await?;
    let found = load(&store, &key).await?;
    let appended: Vec<&str> = ids(&found.tail).into_iter().filter(|id| *id != "last").collect();
    let set: Vec<&str> = found.state.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(appended, set);
    assert_eq!(found.row.last_seq.0, appended.len() as u64 + 1);
    Ok(())
}
