//! Leases: one owner at a time, and an old one is kept out.

use super::{
    Shared,
    make::{says, session, ticket},
};
use session::{Append, Claim, Claimed, Enter, Error, Lease, Result, Scope, SessionKey, StateChange};
use std::time::Duration;

const LONG: Duration = Duration::from_hours(1);

fn claim(owner: &str) -> Claim {
    Claim { owner: owner.into(), ttl: LONG, displaces: None }
}

/// A lease that is over as soon as it begins.
fn brief(owner: &str) -> Claim {
    Claim { ttl: Duration::ZERO, ..claim(owner) }
}

async fn granted(store: &Shared, key: &SessionKey, claim: Claim) -> Result<Lease> {
    match store.claim(key, claim).await? {
        Claimed::Granted { lease, .. } => Ok(lease),
        Claimed::Held { .. } => Err(Error::Fenced(key.clone())),
    }
}

async fn holder(store: &Shared, key: &SessionKey) -> Result<Option<(String, u64)>> {
    match store.claim(key, brief("who asks")).await? {
        Claimed::Granted { .. } => Ok(None),
        Claimed::Held { owner, epoch } => Ok(Some((owner, epoch))),
    }
}

pub async fn a_free_lease_is_granted_and_then_held(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = granted(&store, &key, claim("a")).await?;
    assert_eq!((&lease.key, lease.owner.as_str()), (&key, "a"));
    assert!(lease.epoch > 0);
    let held = Claimed::Held { owner: "a".into(), epoch: lease.epoch };
    assert_eq!(store.claim(&key, claim("b")).await?, held);
    let other = session(&store, "other").await?;
    granted(&store, &other, claim("b")).await?;
    Ok(())
}

pub async fn a_claim_of_ones_own_keeps_its_epoch(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = granted(&store, &key, brief("a")).await?;
    // It had expired, and nobody came between.
    assert_eq!(granted(&store, &key, claim("a")).await?, first);
    assert_eq!(holder(&store, &key).await?, Some(("a".into(), first.epoch)));
    Ok(())
}

pub async fn an_expired_lease_goes_to_the_next(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, brief("a")).await?;
    let new = granted(&store, &key, claim("b")).await?;
    assert!(new.epoch > old.epoch);
    let late = store.append(&key, Append { epoch: Some(old.epoch), ..says("m1") }).await;
    assert!(matches!(late, Err(Error::Fenced(_))));
    store.append(&key, Append { epoch: Some(new.epoch), ..says("m1") }).await?;
    Ok(())
}

pub async fn a_released_lease_goes_to_the_next(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, claim("a")).await?;
    store.release(&old).await?;
    store.release(&old).await?;
    let new = granted(&store, &key, claim("b")).await?;
    assert!(new.epoch > old.epoch);
    Ok(())
}

pub async fn a_step_may_give_the_lease_back(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, claim("a")).await?;
    let last = |id: &str, epoch| Append { epoch, release: true, ..says(id) };
    store.append(&key, Append { epoch: Some(old.epoch), ..says("m1") }).await?;
    // Refused, repeated, or without saying whose lease it is: nothing is given back.
    assert!(matches!(store.append(&key, last("m2", Some(old.epoch + 1))).await, Err(Error::Fenced(_))));
    assert!(store.append(&key, last("m1", Some(old.epoch))).await?.repeated);
    store.append(&key, last("m2", None)).await?;
    assert_eq!(holder(&store, &key).await?, Some(("a".into(), old.epoch)));
    store.append(&key, last("m3", Some(old.epoch))).await?;
    let new = granted(&store, &key, claim("b")).await?;
    assert!(new.epoch > old.epoch);
    Ok(())
}

fn enters(owner: &str, id: &str) -> Append {
    Append { enters: Some(Enter { owner: owner.into(), ttl: LONG, follows: None }), ..says(id) }
}

/// The epoch that a step got.
async fn entered(store: &Shared, key: &SessionKey, step: Append) -> Result<Option<u64>> {
    Ok(store.append(key, step).await?.entered.map(|entered| entered.epoch))
}

pub async fn a_step_may_take_a_free_lease(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let epoch = entered(&store, &key, enters("a", "m1")).await?;
    assert_eq!(holder(&store, &key).await?, epoch.map(|epoch| ("a".into(), epoch)));
    // A step that is there already takes nothing, and one that has to wait leaves nothing behind.
    let again = store.append(&key, enters("b", "m1")).await?;
    assert!(again.repeated && again.entered.is_none());
    assert!(matches!(store.append(&key, enters("b", "m2")).await, Err(Error::Busy(_))));
    let last = store.append(&key, Append { epoch, release: true, ..says("m2") }).await?;
    assert_eq!((last.seq.0, last.repeated, last.entered), (2, false, None));
    let next = entered(&store, &key, enters("b", "m3")).await?;
    assert!(next > epoch);
    Ok(())
}

/// A turn of its own, from its first step to its last.
async fn turn(store: &Shared, key: &SessionKey, owner: &str, id: &str) -> Result<u64> {
    let epoch = entered(store, key, enters(owner, id)).await?;
    store.append(key, Append { epoch, release: true, ..says(&format!("{id}-end")) }).await?;
    Ok(epoch.unwrap_or_default())
}

fn follows(epoch: u64, id: &str) -> Append {
    Append { enters: Some(Enter { owner: "a".into(), ttl: LONG, follows: Some(epoch) }), ..says(id) }
}

pub async fn a_step_that_follows_a_turn_is_refused_if_there_was_another(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = turn(&store, &key, "a", "m1").await?;
    let second = turn(&store, &key, "b", "m2").await?;
    assert!(matches!(store.append(&key, follows(first, "m3")).await, Err(Error::Fenced(_))));
    // A lease that was taken and given back is a turn, too, whether or not it left a trace in the log.
    let claimed = granted(&store, &key, claim("b")).await?;
    store.release(&claimed).await?;
    assert!(matches!(store.append(&key, follows(second, "m3")).await, Err(Error::Fenced(_))));
    assert!(entered(&store, &key, follows(claimed.epoch, "m3")).await?.is_some());
    // And so is another session of that name.
    store.delete(&key).await?;
    session(&store, "s").await?;
    assert!(matches!(store.append(&key, follows(claimed.epoch, "m3")).await, Err(Error::Fenced(_))));
    Ok(())
}

pub async fn a_step_that_follows_a_turn_is_told_the_shared_state(store: Shared) -> Result<()> {
    let (key, other) = (session(&store, "s").await?, session(&store, "other").await?);
    let set = |scope, key: &str, value: i64| StateChange { scope, key: key.into(), value: value.into() };
    let first = turn(&store, &key, "a", "m1").await?;
    let state = vec![set(Scope::App, "a", 1), set(Scope::User, "u", 2), set(Scope::Session, "s", 3)];
    store.append(&other, Append { state, ..says("m1") }).await?;
    let own = vec![set(Scope::User, "own", 4), set(Scope::Session, "own", 5)];
    let step = Append { state: own, ..follows(first, "m2") };
    let shared = store.append(&key, step).await?.entered.map(|entered| entered.shared);
    let expected = [set(Scope::App, "a", 1), set(Scope::User, "u", 2), set(Scope::User, "own", 4)];
    assert_eq!(shared.as_deref(), Some(expected.as_slice()));
    Ok(())
}

pub async fn a_step_that_takes_the_lease_overtakes_nobody(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = store.push(&key, ticket("t1")).await?;
    assert!(matches!(store.append(&key, enters("a", "m1")).await, Err(Error::Busy(_))));
    store.withdraw(&key, first.number).await?;
    // Whoever held the lease last and let it run out may still be at work: that is found out by a claim.
    granted(&store, &key, brief("gone")).await?;
    assert!(matches!(store.append(&key, enters("a", "m1")).await, Err(Error::Busy(_))));
    Ok(())
}

pub async fn a_dead_owner_is_displaced_by_its_epoch(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let dead = granted(&store, &key, claim("dead")).await?;
    let displaces = |epoch| Claim { displaces: Some(epoch), ..claim("b") };
    let wrong = store.claim(&key, displaces(dead.epoch + 1)).await?;
    assert_eq!(wrong, Claimed::Held { owner: "dead".into(), epoch: dead.epoch });
    let new = granted(&store, &key, displaces(dead.epoch)).await?;
    assert!(new.epoch > dead.epoch);
    // Who also saw the dead owner comes too late.
    let late = store.claim(&key, Claim { owner: "c".into(), ..displaces(dead.epoch) }).await?;
    assert_eq!(late, Claimed::Held { owner: "b".into(), epoch: new.epoch });
    Ok(())
}

pub async fn renewing_moves_the_end(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let lease = granted(&store, &key, brief("a")).await?;
    store.renew(&lease, LONG).await?;
    assert_eq!(holder(&store, &key).await?, Some(("a".into(), lease.epoch)));
    store.renew(&lease, Duration::ZERO).await?;
    assert_eq!(holder(&store, &key).await?, None);
    Ok(())
}

pub async fn a_lost_lease_cannot_be_renewed_or_released(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, brief("a")).await?;
    let new = granted(&store, &key, claim("b")).await?;
    assert!(matches!(store.renew(&old, LONG).await, Err(Error::Fenced(fenced)) if fenced == key));
    store.release(&old).await?;
    assert_eq!(holder(&store, &key).await?, Some(("b".into(), new.epoch)));
    store.release(&new).await?;
    assert!(matches!(store.renew(&new, LONG).await, Err(Error::Fenced(_))));
    store.delete(&key).await?;
    assert!(matches!(store.renew(&new, LONG).await, Err(Error::NotFound(_))));
    store.release(&new).await
}

pub async fn a_claim_counts_who_waits(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    for (id, expected) in [("t1", 1), ("t2", 2), ("t2", 2)] {
        store.push(&key, ticket(id)).await?;
        let claimed = store.claim(&key, claim("a")).await?;
        assert!(matches!(claimed, Claimed::Granted { waiting, .. } if waiting == expected));
    }
    Ok(())
}

pub async fn a_session_made_anew_fences_the_owner_of_the_old_one(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let old = granted(&store, &key, claim("a")).await?;
    store.delete(&key).await?;
    session(&store, "s").await?;
    let late = || store.append(&key, Append { epoch: Some(old.epoch), ..says("m1") });
    assert!(matches!(late().await, Err(Error::Fenced(_))));
    granted(&store, &key, claim("b")).await?;
    assert!(matches!(late().await, Err(Error::Fenced(_))));
    assert!(matches!(store.renew(&old, LONG).await, Err(Error::Fenced(_))));
    Ok(())
}

pub async fn what_was_left_is_in_a_lease_or_in_an_inbox(store: Shared) -> Result<()> {
    session(&store, "idle").await?;
    let given_back = session(&store, "given back").await?;
    let lease = granted(&store, &given_back, claim("a")).await?;
    store.release(&lease).await?;
    let expired = session(&store, "expired").await?;
    granted(&store, &expired, brief("a")).await?;
    let waiting = session(&store, "waiting").await?;
    store.push(&waiting, ticket("t")).await?;
    let both = session(&store, "both").await?;
    granted(&store, &both, claim("a")).await?;
    store.push(&both, ticket("t")).await?;
    let mut left = store.left().await?;
    left.sort();
    assert_eq!(left, [both, expired, waiting]);
    Ok(())
}
