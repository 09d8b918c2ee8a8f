//! Texts that the view itself adds to a request. Brackets distinguish them from messages of the conversation.

use adk::notes::CONTINUE_NOTE;
use provider::{MessagePart, ModelMessage, Role, ToolCall, ToolResult};

/// Stands for the messages before the first one of the request.
pub(super) const EARLIER: &str = "[Earlier messages are not shown.]";
/// Follows [`EARLIER`] if the user's request is known.
pub(super) const REQUEST: &str = " The request was: ";
/// Appended as a user message if the history ends with the assistant.
pub(super) const PLEASE_CONTINUE: &str = "[Please continue.]";

const OUT_OF_PLACE: &str = "[Out of place: ";
/// Start and end of the correction after an unknown agent name (spec G1).
const CORRECTION: (&str, &str) =
    ("[System: Agent \"", ". Please retry using one of the valid agent names listed above.]");

/// The correction for a model that named an agent which does not exist (spec G1).
pub(crate) fn correction(name: &str, valid: &str) -> String {
    let (begin, end) = CORRECTION;
    format!("{begin}{name}\" does not exist. Valid agents: {valid}{end}")
}

/// A call that has no legal position, as text.
pub(super) fn render_call(call: &ToolCall) -> String {
    let args = serde_json::to_string(&call.args).unwrap_or_default();
    format!("{OUT_OF_PLACE}{} was called with {args}]", call.name)
}

/// A result that has no legal position, as text.
pub(super) fn render_result(result: &ToolResult) -> String {
    format!("{OUT_OF_PLACE}{} answered {}]", result.name, result.response)
}

/// Whether a text is a [`correction`]. Rows without metadata have no other mark.
pub(crate) fn is_legacy_correction(text: &str) -> bool {
    let (begin, end) = CORRECTION;
    text.starts_with(begin) && text.ends_with(end)
}

/// Whether a message only asks to continue the interrupted answer before it.
pub(super) fn is_continue_note(message: &ModelMessage) -> bool {
    let is_continue = |part: &MessagePart| matches!(part, MessagePart::Text { text, note: true, .. } if text.as_str() == CONTINUE_NOTE);
    message.role == Role::User && message.parts.iter().all(is_continue)
}
