//! Converts one row of the source's `messages`. Unexpected data is never an error, but recorded as an anomaly.

use super::{report::Anomaly, source::OldMessageRef, time};
use crate::{SessionMessage, ToolCall};
use rusqlite::{Row, types::ValueRef};
use serde_json::{Map, Value};

/// The roles that Lango in Go writes, including `system` of its compaction.
const ROLES: [&str; 6] = ["user", "assistant", "tool", "function", "model", "system"];

/// The names of the root agent in Lango in Go. They are dropped, so that the root agent of this program continues.
const ROOT_AGENTS: [&str; 3] = ["lango-agent", "lango-orchestrator", "model"];

/// A converted message. The caller counts its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct OldRow {
    pub message: SessionMessage,
    pub(super) number: i64,
    pub(super) anomalies: Vec<Anomaly>,
}

/// Columns in the order in which [`read`] expects them; a missing one is selected as NULL.
pub(super) const COLUMNS: [&str; 6] =
    ["role", "content", "tool_calls", "author", "content_ciphertext", "tool_calls_ciphertext"];

pub(super) fn read(row: &Row<'_>, at: &OldMessageRef) -> rusqlite::Result<OldRow> {
    let mut anomalies = Vec::new();
    let role = text(row.get_ref(0)?, &mut anomalies);
    if !ROLES.contains(&role.as_str()) {
        anomalies.push(Anomaly::UnknownRole);
    }
    if !at.has_time {
        anomalies.push(Anomaly::NoTime);
    }
    if row.get_ref(4)? != ValueRef::Null || row.get_ref(5)? != ValueRef::Null {
        anomalies.push(Anomaly::Encrypted);
    }
    let author =
        Some(text(row.get_ref(3)?, &mut anomalies)).filter(|author| !ROOT_AGENTS.contains(&author.as_str()));
    let message = SessionMessage {
        id: at.message_id(),
        role,
        content: text(row.get_ref(1)?, &mut anomalies),
        tool_calls: tool_calls(row.get_ref(2)?, &mut anomalies),
        author: author.unwrap_or_default(),
        timestamp: time::seconds(at.time),
        ..SessionMessage::default()
    };
    anomalies.dedup();
    Ok(OldRow { message, number: at.number, anomalies })
}

/// SQLite does not enforce column types.
pub(super) fn text(value: ValueRef<'_>, anomalies: &mut Vec<Anomaly>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                anomalies.push(Anomaly::InvalidUtf8);
            }
            text.into_owned()
        }
    }
}

/// The driver of Lango in Go writes JSON as a blob; other tools write text.
fn tool_calls(value: ValueRef<'_>, anomalies: &mut Vec<Anomaly>) -> Vec<ToolCall> {
    let json = text(value, anomalies);
    if json.is_empty() {
        return Vec::new();
    }
    match serde_json::from_str(&json) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Array(calls)) => calls.into_iter().filter_map(|call| tool_call(call, anomalies)).collect(),
        Ok(_) | Err(_) => {
            anomalies.push(Anomaly::UnreadableCalls);
            Vec::new()
        }
    }
}

fn tool_call(value: Value, anomalies: &mut Vec<Anomaly>) -> Option<ToolCall> {
    let Value::Object(mut fields) = value else {
        anomalies.push(Anomaly::UnreadableCalls);
        return None;
    };
    let mut is_expected = true;
    let mut take = |name: &str| field(&mut fields, name, &mut is_expected);
    let call = ToolCall {
        id: take("id").unwrap_or_default(),
        name: take("name").unwrap_or_default(),
        input: take("input").unwrap_or_default(),
        output: take("output").unwrap_or_default(),
        thought_signature: take("thoughtSignature").filter(|signature| !signature.is_empty()),
        thought: fields.remove("thought").is_some_and(|thought| thought == true),
    };
    if !is_expected || !fields.is_empty() {
        anomalies.push(Anomaly::UnexpectedCall);
    }
    Some(call)
}

/// Takes a string field. A value of another type is converted to its JSON text.
fn field(fields: &mut Map<String, Value>, name: &str, is_expected: &mut bool) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => {
            *is_expected = false;
            Some(other.to_string())
        }
    }
}
