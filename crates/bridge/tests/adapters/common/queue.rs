//! Who waits at a session's door, and who is made up to wait there.

use super::{Fake, Place, Shared, root, say, start, store_key};
use session::{Claim, Claimed, Lease, Ticket};
use std::time::Duration;

/// An owner of whom this machine cannot know whether it is alive.
pub(crate) const ELSEWHERE: &str = "elsewhere/boot/1/1#0";

/// The tickets of the session, first come first.
pub(crate) async fn tickets(store: &Shared) -> Vec<Ticket> {
    store.waiting(&store_key(), 100).await.unwrap()
}

/// Lets others work until it is so. A hang ends as a failure, not as a hang.
pub(crate) async fn until(mut it_is_so: impl AsyncFnMut() -> bool) {
    let waited = std::time::Instant::now();
    while !it_is_so().await {
        assert!(waited.elapsed() < Duration::from_secs(20), "it never came to be");
        tokio::task::yield_now().await;
    }
}

/// Claims the session for somebody, taking it from whoever has it.
pub(crate) async fn lease_of(store: &Shared, owner: &str) -> Lease {
    let mut displaces = None;
    loop {
        let claim = Claim { owner: owner.to_owned(), ttl: Duration::from_hours(1), displaces };
        match store.claim(&store_key(), claim).await.unwrap() {
            Claimed::Granted { lease, .. } => return lease,
            Claimed::Held { epoch, .. } => displaces = Some(epoch),
        }
    }
}

/// A ticket as a process of this machine makes it, for a message with this text.
async fn ticket(text: &str) -> Ticket {
    let place = Place::memory();
    let agent = start(&place.store, root(&Fake::echo())).await;
    let lease = lease_of(&place.store, ELSEWHERE).await;
    let waiting = tokio::spawn({
        let (agent, request) = (agent.clone(), say(text));
        async move { agent.run_and_collect(request).await }
    });
    until(async || !tickets(&place.store).await.is_empty()).await;
    let ticket = tickets(&place.store).await.remove(0);
    place.store.release(&lease).await.unwrap();
    waiting.await.unwrap().unwrap();
    ticket
}

/// What waits in the inbox for a message with this text.
pub(crate) async fn payload(text: &str) -> String {
    ticket(text).await.payload
}

/// An owner on this machine, since its last start, of a process that is gone.
pub(crate) async fn dead_owner() -> String {
    let alive = ticket("hello").await.owner;
    let process = alive.split('#').next().unwrap();
    let (before, _start) = process.rsplit_once('/').unwrap();
    format!("{before}/1#0")
}
