//! Restores parts from the columns alone, for rows without `meta`.

use adk::content::{Data, FunctionCall, FunctionResponse, Part};
use serde_json::{Map, Value};
use session::{SessionMessage, ToolCall};
use std::collections::{HashSet, VecDeque};

/// The kind of a row. A row with outputs belongs to a tool, whatever its role: tool results were once stored as
/// `user`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyKind {
    User,
    Assistant,
    Tool,
    Other,
}

impl LegacyKind {
    pub(crate) fn from_row(row: &SessionMessage) -> Self {
        let has_output = row.tool_calls.iter().any(ToolCall::is_response);
        let has_input = row.tool_calls.iter().any(ToolCall::is_call);
        match row.role.as_str() {
            "tool" | "function" => Self::Tool,
            _ if has_output && !has_input => Self::Tool,
            "user" => Self::User,
            "assistant" | "model" => Self::Assistant,
            _ => Self::Other,
        }
    }
}

/// Calls of the assistant that rows without ids may still answer, in order (spec N1).
pub(super) type OpenLegacyCalls = VecDeque<(String, String)>;

/// Whether the row is a tool result without an id, which is matched to a call by position.
pub(super) fn is_positional(row: &SessionMessage) -> bool {
    LegacyKind::from_row(row) == LegacyKind::Tool && results(row).next().is_none()
}

/// Whether the calls of the row are those that later rows without ids answer.
pub(super) fn is_assistant(row: &SessionMessage) -> bool {
    LegacyKind::from_row(row) == LegacyKind::Assistant
}

/// The results of a tool row. A result that names its call is one, whatever its output.
fn results(row: &SessionMessage) -> impl Iterator<Item = &ToolCall> {
    row.tool_calls.iter().filter(|call| call.is_response() || (!call.id.is_empty() && !call.is_call()))
}

/// The parts of a row, from its columns alone.
pub(super) fn parts(row: &SessionMessage, open_calls: &mut OpenLegacyCalls) -> Vec<Part> {
    match LegacyKind::from_row(row) {
        LegacyKind::Tool if is_positional(row) => vec![positional(row, open_calls)],
        LegacyKind::Tool => match &results(row).collect::<Vec<_>>()[..] {
            // The text of a single result is in the row if it is not in the result.
            [result] if result.output.is_empty() => vec![result_part(result, &row.content)],
            results => results.iter().map(|result| response_part(result)).collect(),
        },
        LegacyKind::User | LegacyKind::Assistant | LegacyKind::Other => {
            let text = (!row.content.is_empty()).then(|| Part::text(row.content.clone()));
            let calls = row.tool_calls.iter().filter(|call| call.is_call());
            // A call that was stored together with its result (spec L1).
            let results = calls.clone().filter(|call| call.is_response()).map(response_part);
            text.into_iter().chain(calls.map(call_part)).chain(results).collect()
        }
    }
}

/// As [`parts`], for a row whose `meta` does not match its columns: text beside the results, which the layout in
/// `meta` separated, is kept as a part.
pub(super) fn with_text(row: &SessionMessage, open_calls: &mut OpenLegacyCalls) -> Vec<Part> {
    let mut parts = parts(row, open_calls);
    if LegacyKind::from_row(row) == LegacyKind::Tool && !is_positional(row) {
        let (mut text, mut rest) = (String::new(), row.content.as_str());
        for answer in row.tool_calls.iter().filter(|call| call.is_response()) {
            let Some((before, behind)) = rest.split_once(&answer.output) else { continue };
            text.push_str(before);
            rest = behind;
        }
        text.push_str(rest);
        parts.extend((!text.trim().is_empty()).then(|| Part::text(text)));
    }
    parts
}

/// Updates the calls that a later row without ids may answer.
pub(super) fn track_open_calls(row: &SessionMessage, open_calls: &mut OpenLegacyCalls) {
    match LegacyKind::from_row(row) {
        LegacyKind::Tool => {
            let answered: HashSet<&str> = row.tool_calls.iter().map(|answer| answer.id.as_str()).collect();
            open_calls.retain(|(id, _)| !answered.contains(id.as_str()));
        }
        LegacyKind::Assistant => {
            let calls = row.tool_calls.iter().filter(|call| call.is_call() && !call.is_response());
            *open_calls = calls.map(|call| (call.id.clone(), call.name.clone())).collect();
        }
        // Between a call and its result, other rows do not break the match.
        LegacyKind::User | LegacyKind::Other => {}
    }
}

fn positional(row: &SessionMessage, open_calls: &mut OpenLegacyCalls) -> Part {
    let Some((id, name)) = open_calls.pop_front() else { return Part::text(row.content.clone()) };
    let response = Some(parse_object(&row.content));
    FunctionResponse { id: Some(id), name, response, extra: Map::new() }.into()
}

pub(super) fn call_part(call: &ToolCall) -> Part {
    let args = match serde_json::from_str(&call.input) {
        Ok(Value::Null) => None,
        Ok(Value::Object(map)) => Some(map),
        Ok(other) => Some(Map::from_iter([("input".to_owned(), other)])),
        Err(_) => Some(Map::from_iter([("input".to_owned(), Value::from(call.input.as_str()))])),
    };
    let function =
        FunctionCall { id: Some(call.id.clone()), args, name: call.name.clone(), extra: Map::new() };
    Part {
        data: Data::FunctionCall(Box::new(function)),
        thought: call.thought.then_some(true),
        thought_signature: call.thought_signature.clone(),
        extra: Map::new(),
    }
}

pub(super) fn response_part(answer: &ToolCall) -> Part {
    result_part(answer, &answer.output)
}

fn result_part(answer: &ToolCall, output: &str) -> Part {
    let response = if output == "null" { None } else { Some(parse_object(output)) };
    let id = Some(answer.id.clone()).filter(|id| !id.is_empty());
    let function = FunctionResponse { id, name: answer.name.clone(), response, extra: Map::new() };
    Part {
        data: Data::FunctionResponse(Box::new(function)),
        thought: answer.thought.then_some(true),
        thought_signature: answer.thought_signature.clone(),
        extra: Map::new(),
    }
}

/// Parses a JSON object; any other value is wrapped as `result`.
fn parse_object(text: &str) -> Map<String, Value> {
    let value = match serde_json::from_str(text) {
        Ok(Value::Object(map)) => return map,
        Ok(other) => other,
        Err(_) if text.is_empty() => return Map::new(),
        Err(_) => Value::from(text),
    };
    Map::from_iter([("result".to_owned(), value)])
}
