//! ADK's facts as rows of the store, and back.

use adk::pending::{PendingCall, PendingChange, PendingWork, Question};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use session::{Fact, FactChange as RowChange, Seq};
use std::collections::HashMap;

const AGENT: &str = "agent";
const CALL: &str = "call";
const QUESTION: &str = "question";
const BEGUN: &str = "begun";

/// A fact and when it became one. Rows come back by their names, but calls and questions have an order.
#[derive(Debug, Serialize, Deserialize)]
struct Placed<T> {
    /// The place in the log that it came after, and which of the changes there it was.
    at: (u64, usize),
    /// The run that asked, if it is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    fact: T,
}

/// The runs that wait for the answers to questions, by the id of the question.
pub(crate) fn question_runs(rows: &[Fact]) -> HashMap<String, String> {
    let questions = rows.iter().filter(|row| row.kind == QUESTION);
    let placed = questions.filter_map(|row| serde_json::from_str::<Placed<Question>>(&row.value).ok());
    placed.filter_map(|placed| Some((placed.fact.id, placed.run?))).collect()
}

/// The facts that a snapshot carries. A row that cannot be read is as good as none: the view heals what follows.
pub(crate) fn from_rows(rows: &[Fact]) -> PendingWork {
    let has_begun = |call: &PendingCall| rows.iter().any(|row| row.kind == BEGUN && row.id == call.id());
    let open_calls = of_kind::<PendingCall>(rows, CALL).into_iter();
    PendingWork {
        active_agent: of_kind(rows, AGENT).pop(),
        open_calls: open_calls.map(|call| PendingCall { begun: has_begun(&call), ..call }).collect(),
        questions: of_kind::<Question>(rows, QUESTION),
        deferred: Vec::new(),
    }
}

/// The facts of a kind, in the order in which they became facts.
fn of_kind<T: DeserializeOwned>(rows: &[Fact], kind: &str) -> Vec<T> {
    let rows = rows.iter().filter(|row| row.kind == kind);
    let mut facts: Vec<Placed<T>> = rows.filter_map(|row| serde_json::from_str(&row.value).ok()).collect();
    facts.sort_by_key(|placed| placed.at);
    facts.into_iter().map(|placed| placed.fact).collect()
}

/// The row that holds a call which was answered for now.
pub(crate) fn deferred(row: &Fact) -> Option<PendingCall> {
    serde_json::from_str::<Placed<PendingCall>>(&row.value).ok().map(|placed| placed.fact)
}

pub(crate) const fn call_kind() -> &'static str {
    CALL
}

/// The changes of an event that is appended after that place, by that run.
pub(crate) fn to_rows(
    changes: &[PendingChange],
    after: Seq,
    run: Option<&str>,
) -> Result<Vec<RowChange>, serde_json::Error> {
    let mut rows = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        rows.push(to_row(change, (after.0, index), run)?);
        rows.extend(answered(change).map(|id| RowChange::Clear { kind: BEGUN.to_owned(), id }));
    }
    Ok(rows)
}

/// The call whose outcome this is.
fn answered(change: &PendingChange) -> Option<String> {
    match change {
        PendingChange::Closed { id } => Some(id.clone()),
        PendingChange::Deferred(call) => Some(call.id()),
        PendingChange::Active(_)
        | PendingChange::Opened(_)
        | PendingChange::Asked(_)
        | PendingChange::Settled { .. } => None,
    }
}

/// That a call begins.
pub(crate) fn begun(id: &str) -> RowChange {
    RowChange::Set(Fact {
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
        PendingChange::Active(name) => set(AGENT, String::new(), &Placed { at, run, fact: name }, true),
        PendingChange::Opened(call) => set(CALL, call.id(), &Placed { at, run, fact: call }, true),
        PendingChange::Closed { id } => Ok(RowChange::Clear { kind: CALL.to_owned(), id: id.clone() }),
        // CachedSession for the day on which its result comes, but not carried along until then.
        PendingChange::Deferred(call) => set(CALL, call.id(), &Placed { at, run, fact: call }, false),
        PendingChange::Asked(question) => {
            set(QUESTION, question.id.clone(), &Placed { at, run, fact: question }, true)
        }
        PendingChange::Settled { id } => Ok(RowChange::Clear { kind: QUESTION.to_owned(), id: id.clone() }),
    }
}

fn set<T: Serialize>(
    kind: &str,
    id: String,
    fact: &Placed<T>,
    carried: bool,
) -> Result<RowChange, serde_json::Error> {
    let value = serde_json::to_string(fact)?;
    Ok(RowChange::Set(Fact { kind: kind.to_owned(), id, value, carried }))
}
