//! What the past left open is closed by appended events before a new message is taken: nothing is rewritten.

use crate::{
    content::{Content, FunctionResponse, Part},
    event::Event,
    pending::{PendingCall, PendingWork, Question, REQUEST_CONFIRMATION, SUPERSEDED},
};
use serde_json::{Value, json};

/// What a model is told of a call that may or may not have run.
pub(crate) const INTERRUPTED: &str =
    "interrupted, outcome unknown: the call was cut off and may or may not have taken effect";

/// What a model is told of a call that waits for a person.
pub(crate) const UNCONFIRMED: &str = "This tool call requires confirmation, please approve or reject.";

/// Whether nobody knows if the call that this answers took effect.
pub fn has_unknown_outcome(answer: &FunctionResponse) -> bool {
    answer.error().and_then(Value::as_str) == Some(INTERRUPTED)
}

/// The events that settle what is open. A message that answers questions leaves the other questions open;
/// any other message overtakes them all.
pub(crate) fn settle(pending: &PendingWork, message_answers: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for call in &pending.open_calls {
        let question = pending.question_about(call);
        let error = if question.is_some() { UNCONFIRMED } else { INTERRUPTED };
        push_response(&mut events, call, (&call.id(), call.name()), json!({"error": error}));
        if let (Some(question), Some(event)) = (question, events.last_mut()) {
            event.actions.requested_tool_confirmations.insert(call.id(), json!(question.confirmation));
        }
    }
    if !message_answers {
        push_withdrawals(&mut events, &pending.questions, "a new message came before the answer");
    }
    events
}

/// The events that settle questions which nobody is to answer any more.
pub fn withdraw<'a>(questions: impl IntoIterator<Item = &'a Question>, reason: &str) -> Vec<Event> {
    let mut events = Vec::new();
    push_withdrawals(&mut events, questions, reason);
    events
}

fn push_withdrawals<'a>(
    events: &mut Vec<Event>,
    questions: impl IntoIterator<Item = &'a Question>,
    reason: &str,
) {
    for Question { id, call, .. } in questions {
        let answer = json!({"confirmed": false, SUPERSEDED: reason});
        push_response(events, call, (id, REQUEST_CONFIRMATION), answer);
    }
}

/// Neighbours of one agent and one invocation are answered in one event, as parallel calls are.
fn push_response(events: &mut Vec<Event>, call: &PendingCall, (id, name): (&str, &str), answer: Value) {
    let part = Part::from(FunctionResponse::new(id, name, answer));
    let fits = |event: &&mut Event| event.author == call.author && event.invocation_id == call.invocation_id;
    if let Some(content) = events.last_mut().filter(fits).and_then(|event| event.content.as_mut()) {
        content.parts.push(part);
        return;
    }
    let mut event = Event::new(call.invocation_id.clone(), call.author.clone());
    event.branch.clone_from(&call.branch);
    event.content = Some(Content::new("user", vec![part]));
    events.push(event);
}
