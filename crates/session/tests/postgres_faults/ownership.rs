//! Ownership by leases that expire by the clock of the database.

use crate::common::{execute, open, server};
use session::{Commit, Error, GoneOwner, OwnerClaim, Result, RunStatus, TakeOver, postgres::Options};
use testkit::{
    postgres::{PostgresServer, TestSchema},
    store_suite::{
        SharedStore,
        make::{finish, finishes, ids, load, run_of, session, start, step},
    },
};

/// Two stores with processes of their own on one schema.
async fn two() -> Option<(&'static PostgresServer, TestSchema, [SharedStore; 2])> {
    let server = server()?;
    let schema = server.schema().unwrap();
    let stores = [open(&schema.url, Options::default()).await, open(&schema.url, Options::default()).await];
    Some((server, schema, stores))
}

async fn is_expired(observer: &SharedStore) -> Result<Option<bool>> {
    let owners = observer.owners().await?;
    assert_eq!(owners.len(), 1);
    Ok(owners[0].is_expired)
}

/// Sets the clock back for the rows of a process.
fn age(server: &PostgresServer, schema: &TestSchema, owner: &OwnerClaim, column: &str) {
    let process = OwnerClaim::process_of(owner.name());
    let by =
        format!("UPDATE owners SET {column} = {column} - interval '1 minute' WHERE process = '{process}'");
    execute(server, schema, &by);
}

async fn take(store: &SharedStore, owner: &str, by: &OwnerClaim) -> Result<usize> {
    let beats = store.owners().await?[0].beats;
    let gone = vec![GoneOwner { name: owner.into(), if_beats: Some(beats) }];
    Ok(store.take_over(TakeOver { gone, owner: by.name().into(), session: None }).await?.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_seen_by_a_process_that_kept_its_own() -> Result<()> {
    let Some((server, schema, [one, two])) = two().await else { return Ok(()) };
    let (owner, observer) = (one.claim_owner()?, two.claim_owner()?);
    let key = session(&one, "s").await?;
    // The lease begins with the run.
    start(&one, &key, run_of(owner.name(), "r")).await?;
    two.heartbeat().await?;
    assert_eq!(is_expired(&two).await?, Some(false));
    age(server, &schema, &owner, "expires_at");
    // Both may have lost their leases in an outage: the observer has not held its own for long enough.
    assert_eq!(is_expired(&two).await?, Some(false));
    age(server, &schema, &observer, "leased_since");
    assert_eq!(is_expired(&two).await?, Some(true));
    // An observer whose own lease had a gap begins anew.
    age(server, &schema, &observer, "expires_at");
    assert_eq!(is_expired(&two).await?, Some(false));
    two.heartbeat().await?;
    assert_eq!(is_expired(&two).await?, Some(false));
    age(server, &schema, &observer, "leased_since");
    assert_eq!(is_expired(&two).await?, Some(true));
    one.heartbeat().await?;
    assert_eq!(is_expired(&two).await?, Some(false));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_that_resumes_writes_nothing() -> Result<()> {
    let Some((server, schema, [one, two])) = two().await else { return Ok(()) };
    let (owner, successor) = (one.claim_owner()?, two.claim_owner()?);
    let key = session(&one, "s").await?;
    let old = start(&one, &key, run_of(owner.name(), "r")).await?;
    one.extend_draft(&old, "half".into()).await?;
    age(server, &schema, &owner, "expires_at");
    two.heartbeat().await?;
    let taken = take(&two, owner.name(), &successor).await?;
    assert_eq!(taken, 1);
    for late in [step(&old, "late"), Commit { turn: finishes(&old, RunStatus::Done), ..Commit::default() }] {
        assert!(matches!(one.commit(&key, late).await, Err(Error::Fenced(_))));
    }
    assert!(matches!(one.extend_draft(&old, "late".into()).await, Err(Error::Fenced(_))));
    assert_eq!(one.heartbeat().await?.displaced, 1);
    // The successor continues.
    let lease = two.activity(&key).await?.lease_of("r", successor.name()).unwrap();
    two.commit(&key, step(&lease, "m1")).await?;
    finish(&two, &lease, RunStatus::Done).await?;
    let found = load(&one, &key).await?;
    assert_eq!(ids(&found.tail), ["r", "m1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_between_observation_and_take_over_keeps_the_runs() -> Result<()> {
    let Some((_, _, [one, two])) = two().await else { return Ok(()) };
    let (owner, successor) = (one.claim_owner()?, two.claim_owner()?);
    let key = session(&one, "s").await?;
    let lease = start(&one, &key, run_of(owner.name(), "r")).await?;
    let beats = two.owners().await?[0].beats;
    one.heartbeat().await?;
    let gone = vec![GoneOwner { name: owner.name().into(), if_beats: Some(beats) }];
    let change = TakeOver { gone, owner: successor.name().into(), session: None };
    assert_eq!(two.take_over(change).await?, []);
    one.commit(&key, step(&lease, "m1")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_reaches_the_owner_with_its_heartbeat() -> Result<()> {
    let Some((_, _, [one, two])) = two().await else { return Ok(()) };
    let owner = one.claim_owner()?;
    let key = session(&one, "s").await?;
    let lease = start(&one, &key, run_of(owner.name(), "r")).await?;
    assert!(two.request_cancel(&key, "r").await?);
    assert!(!two.request_cancel(&key, "other").await?);
    // Reported until the run has ended, because the owner may not have begun it.
    for _ in 0..2 {
        assert_eq!(one.heartbeat().await?.cancelled, [(key.clone(), "r".to_owned())]);
        assert_eq!(two.heartbeat().await?.cancelled, []);
    }
    finish(&one, &lease, RunStatus::Cancelled).await?;
    assert_eq!(one.heartbeat().await?.cancelled, []);
    assert!(!two.request_cancel(&key, "r").await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_take_overs_one_gets_each_run() -> Result<()> {
    let Some((_, _, [one, two])) = two().await else { return Ok(()) };
    for n in 0..20 {
        let key = session(&one, &format!("s{n}")).await?;
        start(&one, &key, run_of("gone", "r")).await?;
    }
    let gone = || vec![GoneOwner { name: "gone".into(), if_beats: None }];
    let change = |owner: &str| TakeOver { gone: gone(), owner: owner.into(), session: None };
    let (first, second) = tokio::join!(one.take_over(change("a")), two.take_over(change("b")));
    assert_eq!(first?.len() + second?.len(), 20);
    assert!(one.owners().await?.iter().all(|owner| owner.name != "gone"));
    Ok(())
}
