//! Short words for what the laws need.

use super::Shared;
use serde_json::Value;
use session::{
    Append, Error, Fact, FactChange, Message, NewRun, NewSession, NewTicket, OnConflict, PageRequest, Result,
    RunStatus, Scope, Seq, SessionKey, Snapshot, StateChange, Stored, TailBudget,
};
use std::future::Future;
use tokio::task::JoinSet;

pub fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "ann", session)
}

pub fn new_session(key: &SessionKey, on_conflict: OnConflict) -> NewSession {
    NewSession { key: key.clone(), state: Vec::new(), steps: Vec::new(), on_conflict }
}

/// Makes a session and answers with its key.
pub async fn session(store: &Shared, name: &str) -> Result<SessionKey> {
    let key = key(name);
    store.create(new_session(&key, OnConflict::Fail)).await?;
    Ok(key)
}

/// All messages have the same time: order comes from nowhere but the log.
pub fn message(id: &str) -> Message {
    Message {
        id: id.into(),
        role: "user".into(),
        author: "user".into(),
        content: format!("text of {id}"),
        timestamp: 1_700_000_000.25,
        tokens: 10,
        counted_by: "test".into(),
        ..Message::default()
    }
}

pub fn says(id: &str) -> Append {
    Append { message: Some(message(id)), ..Append::default() }
}

pub fn sets(scope: Scope, key: &str, value: impl Into<Value>) -> StateChange {
    StateChange { scope, key: key.into(), value: value.into() }
}

pub fn changes(state: Vec<StateChange>) -> Append {
    Append { state, ..Append::default() }
}

pub fn fact(kind: &str, id: &str, value: &str) -> Fact {
    Fact { kind: kind.into(), id: id.into(), value: value.into(), carried: true }
}

pub fn sets_fact(fact: Fact) -> Append {
    Append { facts: vec![FactChange::Set(fact)], ..Append::default() }
}

pub fn ticket(id: &str) -> NewTicket {
    NewTicket { id: id.into(), owner: "me".into(), payload: format!("{{\"text\":\"{id}\"}}") }
}

pub fn run(key: &SessionKey, id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        key: key.clone(),
        status: RunStatus::Queued,
        idempotency_key: None,
        owner: "me".into(),
    }
}

/// Everything of a session that exists.
pub async fn load(store: &Shared, key: &SessionKey) -> Result<Snapshot> {
    load_tail(store, key, TailBudget::ALL).await
}

pub async fn load_tail(store: &Shared, key: &SessionKey, budget: TailBudget) -> Result<Snapshot> {
    store.load(key, budget).await?.ok_or_else(|| Error::NotFound(key.clone()))
}

pub fn ids(rows: &[Stored]) -> Vec<&str> {
    rows.iter().map(|row| row.message.id.as_str()).collect()
}

pub fn seqs(rows: &[Stored]) -> Vec<u64> {
    rows.iter().map(|row| row.seq.0).collect()
}

pub fn page(after: u64, limit: usize) -> PageRequest {
    PageRequest { after: Seq(after), limit }
}

/// Runs all at once and answers in their order.
pub async fn together<T, F>(futures: impl IntoIterator<Item = F>) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (place, future) in futures.into_iter().enumerate() {
        tasks.spawn(async move { (place, future.await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
