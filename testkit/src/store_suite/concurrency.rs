//! Many at once: each is answered as if it had been alone.

use super::{
    Shared,
    make::{changes, ids, key, load, message, new_session, page, says, seqs, session, sets, together},
};
use session::{Append, Claim, Claimed, Error, OnConflict, Result, Scope, Seq};
use std::{collections::BTreeSet, future::poll_fn, sync::Arc, task::Poll, time::Duration};

const MANY: u64 = 64;

pub async fn of_many_creates_one_wins(store: Shared) -> Result<()> {
    let create = |_| {
        let store = Arc::clone(&store);
        async move { store.create(new_session(&key("s"), OnConflict::Fail)).await }
    };
    let answers = together((0..MANY).map(create)).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Error::Exists(_)))));
    Ok(())
}

pub async fn many_creates_that_keep_all_get_the_session(store: Shared) -> Result<()> {
    let create = |_| {
        let store = Arc::clone(&store);
        async move { store.create(new_session(&key("s"), OnConflict::Keep)).await }
    };
    let rows = together((0..MANY).map(create)).await.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(rows.iter().all(|row| *row == rows[0]));
    Ok(())
}

pub async fn many_sessions_grow_at_once(store: Shared) -> Result<()> {
    let talk = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            let key = session(&store, &format!("s{n}")).await?;
            for m in 1..=10_u64 {
                let appended = store.append(&key, says(&format!("m{m}"))).await?;
                assert_eq!(appended.seq, Seq(m));
            }
            load(&store, &key).await
        }
    };
    for found in together((0..MANY).map(talk)).await {
        let found = found?;
        assert_eq!(seqs(&found.tail), (1..=10).collect::<Vec<_>>());
        assert_eq!(found.row.total_tokens, 100);
    }
    Ok(())
}

pub async fn many_appends_to_one_session_leave_no_gap(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let append = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { store.append(&key, says(&format!("m{n}"))).await.map(|appended| (appended.seq.0, n)) }
    };
    let places = together((0..200).map(append)).await.into_iter().collect::<Result<BTreeSet<_>>>()?;
    let rows = store.read(&key, page(0, 1000)).await?;
    assert_eq!(seqs(&rows), (1..=200).collect::<Vec<_>>());
    // Each stands where its answer said.
    let told: Vec<String> = places.iter().map(|(_, n)| format!("m{n}")).collect();
    assert_eq!(ids(&rows), told);
    Ok(())
}

pub async fn the_same_message_sent_many_times_is_stored_once(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let append = |_| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { store.append(&key, says("m")).await }
    };
    let answers = together((0..MANY).map(append)).await.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(answers.iter().all(|appended| appended.seq == Seq(1)));
    assert_eq!(answers.iter().filter(|appended| !appended.repeated).count(), 1);
    assert_eq!(load(&store, &key).await?.tail.len(), 1);
    Ok(())
}

pub async fn bad_appends_among_good_ones_fail_alone(store: Shared) -> Result<()> {
    let good = session(&store, "good").await?;
    let append = |n: u64| {
        let (store, good) = (Arc::clone(&store), good.clone());
        async move {
            let step = says(&format!("m{n}"));
            match n % 4 {
                0 => store.append(&key("missing"), step).await,
                1 => store.append(&good, Append { expected_seq: Some(Seq(1_000_000)), ..step }).await,
                2 => store.append(&good, Append { takes: Some(1_000_000), ..step }).await,
                3.. => store.append(&good, step).await,
            }
        }
    };
    let answers = together((0..200).map(append)).await;
    for (n, answer) in answers.iter().enumerate() {
        match n % 4 {
            0 => assert!(matches!(answer, Err(Error::NotFound(_)))),
            1 => assert!(matches!(answer, Err(Error::Conflict { .. }))),
            2 => assert!(matches!(answer, Err(Error::TicketGone { .. }))),
            3.. => assert!(answer.is_ok()),
        }
    }
    let rows = store.read(&good, page(0, 1000)).await?;
    assert_eq!(seqs(&rows), (1..=50).collect::<Vec<_>>());
    Ok(())
}

pub async fn of_many_claims_one_is_granted(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let claim = |n: u64| {
        let (store, key) = (Arc::clone(&store), key.clone());
        let claim = Claim { owner: format!("owner {n}"), ttl: Duration::from_mins(1), displaces: None };
        async move { store.claim(&key, claim).await }
    };
    let answers = together((0..MANY).map(claim)).await.into_iter().collect::<Result<Vec<_>>>()?;
    let granted: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Claimed::Granted { lease, .. } => Some((lease.owner.clone(), lease.epoch)),
            Claimed::Held { .. } => None,
        })
        .collect();
    assert_eq!(granted.len(), 1);
    for answer in answers {
        let (Claimed::Held { owner, epoch }
        | Claimed::Granted { lease: session::Lease { owner, epoch, .. }, .. }) = answer;
        assert_eq!((owner, epoch), granted[0]);
    }
    Ok(())
}

pub async fn many_sessions_change_one_shared_key_set(store: Shared) -> Result<()> {
    let change = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            let key = session(&store, &format!("s{n}")).await?;
            store.append(&key, changes(vec![sets(Scope::User, &format!("k{n}"), n)])).await
        }
    };
    together((0..MANY).map(change)).await.into_iter().collect::<Result<Vec<_>>>()?;
    let state = load(&store, &key("s0")).await?.state;
    let values: BTreeSet<Option<u64>> = state.iter().map(|change| change.value.as_u64()).collect();
    assert_eq!(values, (0..MANY).map(Some).collect());
    Ok(())
}

/// The answer is dropped at its first pause, wherever that is; the step is there whole or not at all.
pub async fn a_dropped_answer_is_all_or_nothing(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    for n in 0..20_u64 {
        let step = Append {
            message: Some(message(&format!("m{n}"))),
            state: vec![sets(Scope::Session, &format!("m{n}"), n)],
            ..Append::default()
        };
        let mut answer = store.append(&key, step);
        poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_ready())).await;
    }
    // Behind this one everything that was under way is settled.
    store.append(&key, says("last")).await?;
    let found = load(&store, &key).await?;
    let said: Vec<&str> = ids(&found.tail).into_iter().filter(|id| *id != "last").collect();
    let set: Vec<&str> = found.state.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(said, set);
    assert_eq!(found.row.last_seq.0, said.len() as u64 + 1);
    Ok(())
}
