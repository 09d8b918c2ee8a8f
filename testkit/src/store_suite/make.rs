//! Builders and functions shared by the contract tests.

use super::SharedStore;
use serde_json::Value;
use session::{
    Commit, Committed, Error, GoneOwner, IdempotencyKey, Lease, NewRun, NewSession, OnConflict, PageRequest,
    PendingEntry, PendingEntryChange, Result, RunRecord, RunStatus, Scope, Seq, SessionKey, SessionMessage,
    Snapshot, Start, StateChange, StoredMessage, TailBudget, TakeOver, TakenOver, TurnChange, Withdrawal,
};
use std::future::Future;
use tokio::task::JoinSet;

pub fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "ann", session)
}

pub fn new_session(key: &SessionKey, on_conflict: OnConflict) -> NewSession {
    NewSession { key: key.clone(), state: Vec::new(), steps: Vec::new(), on_conflict, quota: None }
}

/// Creates a session and returns its key.
pub async fn session(store: &SharedStore, name: &str) -> Result<SessionKey> {
    let key = key(name);
    store.create(new_session(&key, OnConflict::Fail)).await?;
    Ok(key)
}

/// All messages have the same timestamp, so that only the log can order them.
pub fn message(id: &str) -> SessionMessage {
    SessionMessage {
        id: id.into(),
        role: "user".into(),
        author: "user".into(),
        content: format!("text of {id}"),
        timestamp: 1_700_000_000.25,
        tokens: 10,
        counted_by: "test".into(),
        ..SessionMessage::default()
    }
}

/// A commit that appends one message.
pub fn message_commit(id: &str) -> Commit {
    Commit::message(message(id))
}

pub fn sets(scope: Scope, key: &str, value: impl Into<Value>) -> StateChange {
    StateChange { scope, key: key.into(), value: value.into() }
}

pub fn changes(state: Vec<StateChange>) -> Commit {
    Commit { state, ..Commit::default() }
}

pub fn entry(kind: &str, id: &str, value: &str) -> PendingEntry {
    PendingEntry { kind: kind.into(), id: id.into(), value: value.into(), carried: true }
}

pub fn sets_entry(entry: PendingEntry) -> Commit {
    Commit { pending: vec![PendingEntryChange::Set(entry)], ..Commit::default() }
}

/// The owner of every run that names no other.
pub const ME: &str = "me";

pub fn run(id: &str) -> NewRun {
    NewRun { id: id.into(), owner: ME.into(), idempotency_key: None, is_new: false }
}

pub fn run_of(owner: &str, id: &str) -> NewRun {
    NewRun { owner: owner.into(), ..run(id) }
}

/// A run whose request has an idempotency key.
pub fn run_with_key(id: &str, key: &str, fingerprint: &str) -> NewRun {
    let idempotency_key = Some(IdempotencyKey { key: key.into(), fingerprint: fingerprint.into() });
    NewRun { idempotency_key, ..run(id) }
}

pub fn payload(id: &str) -> String {
    format!("{{\"text\":\"{id}\"}}")
}

pub fn starts(run: NewRun) -> TurnChange {
    TurnChange::Start(Start {
        run,
        if_epoch: None,
        supersedes: Vec::new(),
        settled: Vec::new(),
        options: None,
    })
}

/// A commit that starts a run with a message of the same id.
pub fn start_commit(run: NewRun) -> Commit {
    Commit { messages: vec![message(&run.id)], turn: starts(run), ..Commit::default() }
}

pub fn step(lease: &Lease, id: &str) -> Commit {
    Commit { turn: TurnChange::Step(lease.clone()), ..message_commit(id) }
}

pub fn finishes(lease: &Lease, status: RunStatus) -> TurnChange {
    TurnChange::Finish { lease: lease.clone(), status, error: None }
}

/// Starts a run that is new, queued or waiting.
pub async fn start(store: &SharedStore, key: &SessionKey, run: NewRun) -> Result<Lease> {
    start_with(store, key, start_commit(run)).await
}

pub async fn start_with(store: &SharedStore, key: &SessionKey, commit: Commit) -> Result<Lease> {
    let started = store.commit(key, commit).await?.started;
    started.map(|started| started.lease).ok_or_else(|| Error::Fenced(key.clone()))
}

pub async fn finish(store: &SharedStore, lease: &Lease, status: RunStatus) -> Result<Committed> {
    store.commit(&lease.key, Commit { turn: finishes(lease, status), ..Commit::default() }).await
}

/// Runs a complete turn with the rows `id` and `id-end`.
pub async fn turn(store: &SharedStore, key: &SessionKey, id: &str) -> Result<Committed> {
    let lease = start(store, key, run(id)).await?;
    let turn = finishes(&lease, RunStatus::Done);
    store.commit(key, Commit { turn, ..message_commit(&format!("{id}-end")) }).await
}

pub async fn enqueue(store: &SharedStore, key: &SessionKey, run: NewRun) -> Result<RunRecord> {
    let payload = payload(&run.id);
    store.enqueue(key, run, payload).await
}

pub fn withdrawal(id: &str, status: RunStatus) -> Withdrawal {
    Withdrawal { id: id.into(), owner: ME.into(), status, error: None }
}

/// Transfers the runs of `gone` to `owner`, regardless of heartbeats.
pub async fn take_over(store: &SharedStore, gone: &[&str], owner: &str) -> Result<Vec<TakenOver>> {
    let gone = gone.iter().map(|name| GoneOwner { name: (*name).into(), if_beats: None }).collect();
    store.take_over(TakeOver { gone, owner: owner.into(), session: None }).await
}

/// The lease of the first running run among these.
pub fn taken_lease(taken: &[TakenOver]) -> Result<Lease> {
    taken.iter().find_map(TakenOver::lease).cloned().ok_or(Error::Closed)
}

/// Loads a run that must exist.
pub async fn run_row(store: &SharedStore, key: &SessionKey, id: &str) -> Result<RunRecord> {
    store.run(key, id).await?.ok_or_else(|| Error::NotFound(key.clone()))
}

pub async fn status(store: &SharedStore, key: &SessionKey, id: &str) -> Result<RunStatus> {
    Ok(run_row(store, key, id).await?.status)
}

/// Loads a session that must exist, with its whole log.
pub async fn load(store: &SharedStore, key: &SessionKey) -> Result<Snapshot> {
    load_tail(store, key, TailBudget::ALL).await
}

pub async fn load_tail(store: &SharedStore, key: &SessionKey, budget: TailBudget) -> Result<Snapshot> {
    store.load(key, budget).await?.ok_or_else(|| Error::NotFound(key.clone()))
}

pub fn ids(rows: &[StoredMessage]) -> Vec<&str> {
    rows.iter().map(|row| row.message.id.as_str()).collect()
}

pub fn seqs(rows: &[StoredMessage]) -> Vec<u64> {
    rows.iter().map(|row| row.seq.0).collect()
}

pub fn page(after: u64, limit: usize) -> PageRequest {
    PageRequest { after: Seq(after), limit, max_bytes: usize::MAX }
}

/// Runs all futures concurrently and returns their results in order.
pub async fn together<T, F>(futures: impl IntoIterator<Item = F>) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (index, future) in futures.into_iter().enumerate() {
        tasks.spawn(async move { (index, future.await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
