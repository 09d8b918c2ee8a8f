//! Contract tests of deleting: a session disappears with one commit, and its rows in slices beside other work.

use super::{
    SharedStore,
    make::{
        changes, enqueue, entry, finish, ids, key, load, message_commit, new_session, page, run,
        run_with_key, session, sets, sets_entry, start, take_over,
    },
};
use session::{
    ArtifactKey, Error, ListQuery, NewArtifact, OnConflict, PurgeProgress, PurgeSlice, Result, RunStatus,
    Scope, Seq, SessionKey, TailBudget,
};
use std::time::Duration;

fn slice(rows: usize) -> PurgeSlice {
    PurgeSlice { rows, time: Duration::MAX }
}

fn file(text: &str) -> NewArtifact {
    NewArtifact { part: text.into(), mime_type: None, custom_metadata: "{}".into() }
}

fn artifact(key: &SessionKey, name: &str) -> ArtifactKey {
    ArtifactKey { session: key.clone(), name: name.into() }
}

/// A session with rows of every kind.
async fn create_long(store: &SharedStore, key: &SessionKey) -> Result<()> {
    store.create(new_session(key, OnConflict::Fail)).await?;
    for n in 0..20 {
        store.commit(key, message_commit(&format!("m{n}"))).await?;
        store.commit(key, changes(vec![sets(Scope::Session, &format!("k{n}"), n)])).await?;
        store.commit(key, sets_entry(entry("call", &format!("c{n}"), "1"))).await?;
        let lease = start(store, key, run_with_key(&format!("r{n}"), &format!("{key}-{n}"), "print")).await?;
        finish(store, &lease, RunStatus::Done).await?;
    }
    for name in ["a.txt", "b.txt", "user:shared.txt"] {
        store.save(&artifact(key, name), file("old")).await?;
        store.save(&artifact(key, name), file("old")).await?;
    }
    Ok(())
}

async fn is_gone(store: &SharedStore, key: &SessionKey) -> Result<()> {
    assert!(store.load(key, TailBudget::ALL).await?.is_none());
    assert!(matches!(store.read(key, page(0, 10)).await, Err(Error::NotFound(_))));
    assert!(matches!(store.commit(key, message_commit("late")).await, Err(Error::NotFound(_))));
    assert!(store.runs(key, 10).await?.is_empty());
    assert!(store.pending_entry(key, "call", "c1").await?.is_none());
    assert!(!store.delete(key).await?);
    let listed = store.list(ListQuery { limit: 10, ..ListQuery::default() }).await?;
    assert!(listed.iter().all(|row| row.key != *key));
    assert!(store.session_numbers(&key.app_name, &key.user_id).await?.is_empty());
    artifacts_are_gone(store, key).await
}

async fn artifacts_are_gone(store: &SharedStore, key: &SessionKey) -> Result<()> {
    assert_eq!(store.names(key).await?, ["user:shared.txt"]);
    assert!(store.artifact(&artifact(key, "a.txt"), None).await?.is_none());
    assert!(store.metadata(&artifact(key, "a.txt"), None).await?.is_none());
    assert!(store.versions(&artifact(key, "a.txt")).await?.is_empty());
    assert!(!store.remove(&artifact(key, "a.txt")).await?);
    assert_eq!(store.versions(&artifact(key, "user:shared.txt")).await?, [0, 1]);
    Ok(())
}

pub async fn a_deleted_session_stays_gone_while_its_rows_are_deleted(store: SharedStore) -> Result<()> {
    let gone = key("gone");
    create_long(&store, &gone).await?;
    assert!(store.delete(&gone).await?);
    is_gone(&store, &gone).await?;
    while store.purge(slice(7)).await? == PurgeProgress::More {
        is_gone(&store, &gone).await?;
    }
    is_gone(&store, &gone).await?;
    assert_eq!(store.purge(slice(7)).await?, PurgeProgress::Done);
    Ok(())
}

async fn recreate(store: &SharedStore, name: &SessionKey, round: i32) -> Result<()> {
    session(store, "s").await?;
    let fresh = load(store, name).await?;
    assert_eq!((fresh.row.last_seq, fresh.tail.len(), fresh.pending.len()), (Seq::START, 0, 0));
    assert_eq!(store.names(name).await?, ["user:shared.txt"]);
    store.commit(name, message_commit("m1")).await?;
    store.commit(name, changes(vec![sets(Scope::Session, "new", round)])).await?;
    // The idempotency key of the deleted session is free.
    let lease = start(store, name, run_with_key("r1", &format!("{name}-1"), "other")).await?;
    enqueue(store, name, run("q1")).await?;
    assert_eq!(store.save(&artifact(name, "a.txt"), file("new")).await?, 0);
    for _ in 0..3 {
        store.purge(slice(5)).await?;
    }
    let kept = load(store, name).await?;
    assert_eq!(ids(&kept.tail), ["m1", "r1"]);
    assert_eq!(kept.state, [sets(Scope::Session, "new", round)]);
    assert_eq!(store.names(name).await?, ["a.txt", "user:shared.txt"]);
    assert_eq!(
        store.artifact(&artifact(name, "a.txt"), None).await?.map(|file| file.part),
        Some("new".into())
    );
    finish(store, &lease, RunStatus::Done).await?;
    Ok(())
}

pub async fn a_session_of_the_same_name_is_independent_of_the_rows_of_the_deleted_one(
    store: SharedStore,
) -> Result<()> {
    let name = key("s");
    create_long(&store, &name).await?;
    assert!(store.delete(&name).await?);
    for round in 0..3 {
        // Each round recreates the session at another point of the purge.
        recreate(&store, &name, round).await?;
        assert!(store.delete(&name).await?);
    }
    session(&store, "s").await?;
    store.commit(&name, message_commit("last")).await?;
    while store.purge(slice(5)).await? == PurgeProgress::More {}
    assert_eq!(ids(&load(&store, &name).await?.tail), ["last"]);
    Ok(())
}

pub async fn a_purge_deletes_only_rows_of_deleted_sessions(store: SharedStore) -> Result<()> {
    let (gone, stays, also_gone) = (key("gone"), key("stays"), SessionKey::new("two", "bob", "s"));
    for key in [&gone, &stays, &also_gone] {
        create_long(&store, key).await?;
    }
    let before = load(&store, &stays).await?;
    for key in [&gone, &also_gone] {
        assert!(store.delete(key).await?);
    }
    while store.purge(slice(3)).await? == PurgeProgress::More {}
    let after = load(&store, &stays).await?;
    assert_eq!((after.tail, after.state, after.pending), (before.tail, before.state, before.pending));
    assert_eq!(store.runs(&stays, 100).await?.len(), 20);
    assert_eq!(store.names(&stays).await?, ["a.txt", "b.txt", "user:shared.txt"]);
    Ok(())
}

pub async fn a_run_of_a_deleted_session_is_fenced_and_has_no_owner(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = start(&store, &key, run("r1")).await?;
    enqueue(&store, &key, run("q1")).await?;
    assert!(store.delete(&key).await?);
    assert!(store.owners().await?.is_empty());
    assert!(take_over(&store, &["me"], "other").await?.is_empty());
    assert!(finish(&store, &lease, RunStatus::Done).await.is_err());
    assert!(store.extend_draft(&lease, "x".into()).await.is_err());
    session(&store, "s").await?;
    assert!(matches!(
        finish(&store, &lease, RunStatus::Done).await,
        Err(Error::Fenced(_) | Error::RunMoved { .. })
    ));
    Ok(())
}
