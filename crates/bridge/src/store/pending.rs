//! Converts ADK's pending work to entries of the store, and back.

use adk::{
    pending::{PendingCall, PendingChange, PendingWork, Question},
    window::{Front, Fronts},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use session::{PendingEntry, PendingEntryChange as RowChange, Seq};
use std::collections::HashMap;

const AGENT: &str = "agent";
const CALL: &str = "call";
const QUESTION: &str = "question";
const BEGUN: &str = "begun";
const FRONT: &str = "front";

/// An entry with its order. Rows are sorted by name, but calls and questions are ordered by the log.
#[derive(Debug, Serialize, Deserialize)]
struct LoggedEntry<T> {
    /// The sequence number before the change, and the index of the change within its event.
    at: (u64, usize),
    /// The run that asked; set for questions only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(rename = "fact")]
    entry: T,
}

/// The waiting runs, by the id of the question that each has asked.
pub(crate) fn question_runs(rows: &[PendingEntry]) -> HashMap<String, String> {
    let questions = rows.iter().filter(|row| row.kind == QUESTION);
    let logged = questions.filter_map(|row| serde_json::from_str::<LoggedEntry<Question>>(&row.value).ok());
    logged.filter_map(|logged| Some((logged.entry.id, logged.run?))).collect()
}

/// Decodes the fronts of a snapshot, by agent. An agent whose front cannot be read gets a new one.
pub(crate) fn fronts(rows: &[PendingEntry]) -> Fronts {
    let rows = rows.iter().filter(|row| row.kind == FRONT);
    rows.filter_map(|row| Some((row.id.clone(), serde_json::from_str(&row.value).ok()?))).collect()
}

/// Encodes the new front of an agent.
pub(crate) fn front_row(agent: &str, front: &Front) -> Result<RowChange, serde_json::Error> {
    let value = serde_json::to_string(front)?;
    Ok(RowChange::Set(PendingEntry { kind: FRONT.to_owned(), id: agent.to_owned(), value, carried: true }))
}

/// Decodes the pending work of a snapshot. An unreadable row is skipped; `repair` handles the missing entry in the view.
pub(crate) fn from_rows(rows: &[PendingEntry]) -> PendingWork {
    let has_begun = |call: &PendingCall| rows.iter().any(|row| row.kind == BEGUN && row.id == call.id());
    let open_calls = of_kind::<PendingCall>(rows, CALL).into_iter();
    PendingWork {
        active_agent: of_kind(rows, AGENT).pop(),
        open_calls: open_calls.map(|call| PendingCall { begun: has_begun(&call), ..call }).collect(),
        questions: of_kind::<Question>(rows, QUESTION),
        deferred: Vec::new(),
    }
}

/// The pending work of a kind, in log order.
fn of_kind<T: DeserializeOwned>(rows: &[PendingEntry], kind: &str) -> Vec<T> {
    let rows = rows.iter().filter(|row| row.kind == kind);
    let mut pending: Vec<LoggedEntry<T>> =
        rows.filter_map(|row| serde_json::from_str(&row.value).ok()).collect();
    pending.sort_by_key(|logged| logged.at);
    pending.into_iter().map(|logged| logged.entry).collect()
}

/// Decodes the row of a deferred call: acknowledged, with its final result outstanding.
pub(crate) fn deferred(row: &PendingEntry) -> Option<PendingCall> {
    serde_json::from_str::<LoggedEntry<PendingCall>>(&row.value).ok().map(|logged| logged.entry)
}

pub(crate) const fn call_kind() -> &'static str {
    CALL
}

/// Encodes the changes of an event that `run` appends after sequence number `after`.
pub(crate) fn to_rows(
    changes: &[PendingChange],
    after: Seq,
    run: Option<&str>,
) -> Result<Vec<RowChange>, serde_json::Error> {
    let mut rows = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        rows.push(to_row(change, (after.0, index), run)?);
        rows.extend(completed_call(change).map(|id| RowChange::Clear { kind: BEGUN.to_owned(), id }));
    }
    Ok(rows)
}

/// The id of the call that this change completes or defers.
fn completed_call(change: &PendingChange) -> Option<String> {
    match change {
        PendingChange::Closed { id } => Some(id.clone()),
        PendingChange::Deferred(call) => Some(call.id()),
        PendingChange::Active(_)
        | PendingChange::Opened(_)
        | PendingChange::Asked(_)
        | PendingChange::Settled { .. } => None,
    }
}

/// The change that records the beginning of a call.
pub(crate) fn call_begins(id: &str) -> RowChange {
    RowChange::Set(PendingEntry {
        kind: BEGUN.to_owned(),
        id: id.to_owned(),
        value: "true".to_owned(),
        carried: true,
    })
}

fn to_row(
    change: &PendingChange,
    at: (u64, usize),
    run: Option<&str>,
) -> Result<RowChange, serde_json::Error> {
    let run = run.filter(|_| matches!(change, PendingChange::Asked(_))).map(str::to_owned);
    match change {
        PendingChange::Active(name) => set(AGENT, String::new(), &LoggedEntry { at, run, entry: name }, true),
        PendingChange::Opened(call) => set(CALL, call.id(), &LoggedEntry { at, run, entry: call }, true),
        PendingChange::Closed { id } => Ok(RowChange::Clear { kind: CALL.to_owned(), id: id.clone() }),
        // Stored until its result arrives; not carried in snapshots.
        PendingChange::Deferred(call) => set(CALL, call.id(), &LoggedEntry { at, run, entry: call }, false),
        PendingChange::Asked(question) => {
            set(QUESTION, question.id.clone(), &LoggedEntry { at, run, entry: question }, true)
        }
        PendingChange::Settled { id } => Ok(RowChange::Clear { kind: QUESTION.to_owned(), id: id.clone() }),
    }
}

fn set<T: Serialize>(
    kind: &str,
    id: String,
    entry: &LoggedEntry<T>,
    carried: bool,
) -> Result<RowChange, serde_json::Error> {
    let value = serde_json::to_string(entry)?;
    Ok(RowChange::Set(PendingEntry { kind: kind.to_owned(), id, value, carried }))
}
