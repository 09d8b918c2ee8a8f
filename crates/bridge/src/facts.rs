//! ADK's facts as rows of the store, and back.

use adk::facts::{Call, FactChange, Facts, Question};
use serde::Serialize;
use session::{Fact, FactChange as RowChange};

const AGENT: &str = "agent";
const CALL: &str = "call";
const QUESTION: &str = "question";

/// The facts that a snapshot carries. A row that cannot be read is as good as none: the view heals what follows.
pub(crate) fn from_rows(rows: &[Fact]) -> Facts {
    let mut facts = Facts::default();
    for row in rows {
        match row.kind.as_str() {
            AGENT => facts.active_agent = serde_json::from_str(&row.value).ok(),
            CALL => facts.open_calls.extend(serde_json::from_str::<Call>(&row.value)),
            QUESTION => facts.questions.extend(serde_json::from_str::<Question>(&row.value)),
            _ => {}
        }
    }
    facts
}

/// The row that holds a call which was answered for now.
pub(crate) fn deferred(row: &Fact) -> Option<Call> {
    serde_json::from_str(&row.value).ok()
}

pub(crate) const fn call_kind() -> &'static str {
    CALL
}

pub(crate) fn to_rows(changes: &[FactChange]) -> Result<Vec<RowChange>, serde_json::Error> {
    changes.iter().map(to_row).collect()
}

fn to_row(change: &FactChange) -> Result<RowChange, serde_json::Error> {
    match change {
        FactChange::Active(name) => set(AGENT, String::new(), name, true),
        FactChange::Opened(call) => set(CALL, call.id(), call, true),
        FactChange::Closed { id } => Ok(RowChange::Clear { kind: CALL.to_owned(), id: id.clone() }),
        // Kept for the day on which its result comes, but not carried along until then.
        FactChange::Deferred(call) => set(CALL, call.id(), call, false),
        FactChange::Asked(question) => set(QUESTION, question.id.clone(), question, true),
        FactChange::Settled { id } => Ok(RowChange::Clear { kind: QUESTION.to_owned(), id: id.clone() }),
    }
}

fn set(
    kind: &str,
    id: String,
    value: &impl Serialize,
    carried: bool,
) -> Result<RowChange, serde_json::Error> {
    let value = serde_json::to_string(value)?;
    Ok(RowChange::Set(Fact { kind: kind.to_owned(), id, value, carried }))
}
