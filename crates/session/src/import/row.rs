//! One row of Lango's `messages` in our shape. Nothing that a row may hold is an error; what is odd is noted.

use super::{report::Oddity, source::Place, time};
use crate::{Message, ToolCall};
use rusqlite::{Row, types::ValueRef};
use serde_json::{Map, Value};

/// The roles that Lango writes, and `system`, which its compaction writes.
const ROLES: [&str; 6] = ["user", "assistant", "tool", "function", "model", "system"];

/// The names that the root agent had there; whoever is the root agent here goes on in its place.
const ROOT_AGENTS: [&str; 3] = ["lango-agent", "lango-orchestrator", "model"];

/// A message that is ready to be stored but for its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct OldRow {
    pub message: Message,
    pub(super) number: i64,
    pub(super) odd: Vec<Oddity>,
}

/// Columns in the order in which [`read`] expects them; a missing one is selected as NULL.
pub(super) const COLUMNS: [&str; 6] =
    ["role", "content", "tool_calls", "author", "content_ciphertext", "tool_calls_ciphertext"];

pub(super) fn read(row: &Row<'_>, place: &Place) -> rusqlite::Result<OldRow> {
    let mut odd = Vec::new();
    let role = text(row.get_ref(0)?, &mut odd);
    if !ROLES.contains(&role.as_str()) {
        odd.push(Oddity::UnknownRole);
    }
    if !place.has_time {
        odd.push(Oddity::NoTime);
    }
    if row.get_ref(4)? != ValueRef::Null || row.get_ref(5)? != ValueRef::Null {
        odd.push(Oddity::Encrypted);
    }
    let author =
        Some(text(row.get_ref(3)?, &mut odd)).filter(|author| !ROOT_AGENTS.contains(&author.as_str()));
    let message = Message {
        id: place.message_id(),
        role,
        content: text(row.get_ref(1)?, &mut odd),
        tool_calls: tool_calls(row.get_ref(2)?, &mut odd),
        author: author.unwrap_or_default(),
        timestamp: time::seconds(place.time),
        ..Message::default()
    };
    odd.dedup();
    Ok(OldRow { message, number: place.number, odd })
}

/// SQLite does not hold a column to its type.
pub(super) fn text(value: ValueRef<'_>, odd: &mut Vec<Oddity>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                odd.push(Oddity::NotText);
            }
            text.into_owned()
        }
    }
}

/// Lango's driver writes JSON as a blob; other tools write text.
fn tool_calls(value: ValueRef<'_>, odd: &mut Vec<Oddity>) -> Vec<ToolCall> {
    let json = text(value, odd);
    if json.is_empty() {
        return Vec::new();
    }
    match serde_json::from_str(&json) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Array(calls)) => calls.into_iter().filter_map(|call| tool_call(call, odd)).collect(),
        Ok(_) | Err(_) => {
            odd.push(Oddity::UnreadableCalls);
            Vec::new()
        }
    }
}

fn tool_call(value: Value, odd: &mut Vec<Oddity>) -> Option<ToolCall> {
    let Value::Object(mut fields) = value else {
        odd.push(Oddity::UnreadableCalls);
        return None;
    };
    let mut usual = true;
    let mut take = |name: &str| field(&mut fields, name, &mut usual);
    let call = ToolCall {
        id: take("id").unwrap_or_default(),
        name: take("name").unwrap_or_default(),
        input: take("input").unwrap_or_default(),
        output: take("output").unwrap_or_default(),
        thought_signature: take("thoughtSignature").filter(|signature| !signature.is_empty()),
        thought: fields.remove("thought").is_some_and(|thought| thought == true),
    };
    if !usual || !fields.is_empty() {
        odd.push(Oddity::OddCall);
    }
    Some(call)
}

/// A field that should be a string. Arguments that were stored as JSON itself mean the same as their text.
fn field(fields: &mut Map<String, Value>, name: &str, usual: &mut bool) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => {
            *usual = false;
            Some(other.to_string())
        }
    }
}
