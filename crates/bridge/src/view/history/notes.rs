//! What the view says in its own words. People and models can tell it from what was said: it stands in brackets.

use adk::notes::CONTINUE_NOTE;
use provider::{MessagePart, ModelMessage, Role, ToolCall, ToolResult};

/// What stands in for what was said before the first message that is shown.
pub(super) const EARLIER: &str = "[Earlier messages are not shown.]";
/// And these words, if it is known what the user asked for then.
pub(super) const REQUEST: &str = " The request was: ";
/// What asks for more when nobody has.
pub(super) const GO_ON: &str = "[Please go on.]";

const OUT_OF_PLACE: &str = "[Out of place: ";
/// The correction after an unknown agent begins and ends like this (spec G1).
const CORRECTION: (&str, &str) =
    ("[System: Agent \"", ". Please retry using one of the valid agent names listed above.]");

/// What a model is told that named an agent which does not exist, in the words of the seeds.
pub(crate) fn correction(name: &str, valid: &str) -> String {
    let (begin, end) = CORRECTION;
    format!("{begin}{name}\" does not exist. Valid agents: {valid}{end}")
}

/// A call that cannot stand as one.
pub(super) fn called(call: &ToolCall) -> String {
    let args = serde_json::to_string(&call.args).unwrap_or_default();
    format!("{OUT_OF_PLACE}{} was called with {args}]", call.name)
}

/// An answer that cannot stand as one.
pub(super) fn answered(result: &ToolResult) -> String {
    format!("{OUT_OF_PLACE}{} answered {}]", result.name, result.response)
}

/// Whether a text is a [`correction`]. Rows without metadata have no other mark.
pub(crate) fn is_legacy_correction(text: &str) -> bool {
    let (begin, end) = CORRECTION;
    text.starts_with(begin) && text.ends_with(end)
}

/// Whether a message only asks to continue the interrupted answer before it, and means nothing without that answer.
pub(super) fn is_continue_note(message: &ModelMessage) -> bool {
    let is_continue = |part: &MessagePart| matches!(part, MessagePart::Text { text, note: true, .. } if text.as_str() == CONTINUE_NOTE);
    message.role == Role::User && message.parts.iter().all(is_continue)
}
