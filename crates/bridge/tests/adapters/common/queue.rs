//! Runs of other owners: queued, running, dead or alive.

use super::{Backend, Fake, Shared, key, root, say, start};
use adk::{content::Content, event::Event};
use session::{Commit, Lease, NewRun, OwnerClaim, RunRecord, RunStatus, Start, TurnChange};
use std::time::Duration;

/// The queued runs of the session, by ticket.
pub(crate) async fn queued(store: &Shared) -> Vec<RunRecord> {
    let mut queued = store.runs(&key(), 100).await.unwrap();
    queued.retain(|run| run.status == RunStatus::Queued);
    queued.sort_by_key(|run| run.ticket);
    queued
}

/// Yields until the condition holds. Fails the test after a limit instead of hanging.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(20), "the condition never held");
        tokio::task::yield_now().await;
    }
}

/// A live owner of another process, without a heartbeat.
pub(crate) struct Elsewhere {
    name: String,
    _claim: Option<(Shared, OwnerClaim)>,
}

impl Elsewhere {
    pub(crate) fn new(backend: &Backend) -> Self {
        if backend.name == "memory" {
            return Self { name: "elsewhere#0".to_owned(), _claim: None };
        }
        let store = backend.again();
        let owner = store.claim_owner().unwrap();
        Self { name: owner.name().to_owned(), _claim: Some((store, owner)) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The name of a dead owner.
pub(crate) fn dead_owner(store: &Shared) -> String {
    store.claim_owner().unwrap().name().to_owned()
}

fn new_run(id: &str, owner: &str) -> NewRun {
    NewRun { id: id.to_owned(), owner: owner.to_owned(), idempotency_key: None, is_new: false }
}

/// A run of `owner` that holds the lease, with its message in the log. Its id and its invocation are the text.
pub(crate) async fn running(store: &Shared, owner: &str, text: &str) -> Lease {
    let message = Event { content: Some(Content::user(text)), ..Event::new(text, "user") };
    let start = Start {
        run: new_run(text, owner),
        if_epoch: None,
        supersedes: Vec::new(),
        settled: Vec::new(),
        options: None,
    };
    let message = bridge::store::row::save(&message).unwrap();
    let commit = Commit { turn: TurnChange::Start(start), ..Commit::message(message) };
    store.commit(&key(), commit).await.unwrap().started.unwrap().lease
}

/// Finishes a run of [`running`].
pub(crate) async fn finish(store: &Shared, lease: Lease) {
    let turn = TurnChange::Finish { lease, status: RunStatus::Done, error: None };
    store.commit(&key(), Commit { turn, ..Commit::default() }).await.unwrap();
}

/// Queues a payload for `owner`. The id of the run is the payload.
pub(crate) async fn enqueue(store: &Shared, owner: &str, payload: &str) {
    store.enqueue(&key(), new_run(payload, owner), payload.to_owned()).await.unwrap();
}

/// The payload of a queued message with this text.
pub(crate) async fn payload(text: &str) -> String {
    let backend = Backend::memory();
    let agent = start(&backend.store, root(&Fake::echo())).await;
    let elsewhere = Elsewhere::new(&backend);
    let lease = running(&backend.store, elsewhere.name(), "before").await;
    let waiting = tokio::spawn({
        let request = say(text);
        async move { agent.run_and_collect(request).await }
    });
    until(async || !queued(&backend.store).await.is_empty()).await;
    let id = queued(&backend.store).await.remove(0).id;
    let payload = backend.store.payload(&key(), &id).await.unwrap().unwrap();
    finish(&backend.store, lease).await;
    waiting.await.unwrap().unwrap();
    payload
}
