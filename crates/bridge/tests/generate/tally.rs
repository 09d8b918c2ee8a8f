//! Counts the properties of a log and of its request.

use super::logs::Log;
use adk::notes::CONTINUE_NOTE;
use provider::{MessagePart, ModelMessage};
use session::ToolCall;
use std::collections::HashSet;
use testkit::property::CaseTally;

pub(crate) fn log(tally: &CaseTally, log: &Log) {
    let calls: Vec<&str> = log
        .rows
        .iter()
        .flat_map(|row| &row.message.tool_calls)
        .filter(|call| call.is_call())
        .map(|call| call.id.as_str())
        .collect();
    let unique: HashSet<&str> = calls.iter().copied().collect();
    tally.count("cuts", log.cut);
    tally.count("legacy rows", log.rows.iter().any(|row| row.message.meta.is_none()));
    tally.count("colliding ids", unique.len() < calls.len());
    tally.count("late answers", log.rows.windows(2).any(|pair| is_late(&pair[0].message, &pair[1].message)));
}

pub(crate) fn request(tally: &CaseTally, messages: &[ModelMessage]) {
    let has_text = |words: &str| {
        messages
            .iter()
            .flat_map(|message| &message.parts)
            .any(|part| matches!(part, MessagePart::Text { text, .. } if text.contains(words)))
    };
    let has_result = |words: &str| {
        messages
            .iter()
            .flat_map(ModelMessage::results)
            .any(|result| result.response.to_string().contains(words))
    };
    tally.count("orphans", has_text("[Out of place: "));
    tally.count("parallel calls", messages.iter().any(|message| message.calls().count() > 1));
    tally.count("truncated", has_text("[Earlier messages are not shown.]"));
    tally.count("shortened texts", has_text("characters left out"));
    tally.count("shortened answers", has_result("characters left out"));
    tally.count("interrupted calls", has_result("outcome unknown"));
    tally.count("interrupted answers", has_text(CONTINUE_NOTE));
}

/// A result that follows neither its call nor another result.
fn is_late(before: &session::SessionMessage, row: &session::SessionMessage) -> bool {
    row.tool_calls.iter().any(ToolCall::is_response) && before.tool_calls.is_empty()
}
