//! Settling: appends responses for open calls (dangling tool calls, which a crash left without a result) and for open questions
//! before a new message. The log is never rewritten.

use crate::{
    content::{Content, FunctionResponse, Part},
    event::Event,
    notes::{INTERRUPTED_CALL, UNCONFIRMED_CALL},
    pending::{PendingCall, PendingWork, Question, QuestionRequest, SUPERSEDED},
};
use serde_json::{Value, json};

/// Whether the response says that the call's outcome is unknown.
pub fn has_unknown_outcome(answer: &FunctionResponse) -> bool {
    answer.error().and_then(Value::as_str) == Some(INTERRUPTED_CALL)
}

/// The events that settle open work. With `keep_questions`, unanswered questions stay open; otherwise they are withdrawn.
pub(crate) fn settle(pending: &PendingWork, keep_questions: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for call in &pending.open_calls {
        let question = pending.question_about(call);
        let error = if question.is_some() { UNCONFIRMED_CALL } else { INTERRUPTED_CALL };
        push_response(&mut events, call, (&call.id(), call.name()), json!({"error": error}));
        if let (Some(Question { request: QuestionRequest::Confirmation(confirmation), .. }), Some(event)) =
            (question, events.last_mut())
        {
            event.actions.requested_tool_confirmations.insert(call.id(), json!(confirmation));
        }
    }
    if !keep_questions {
        push_withdrawals(&mut events, &pending.questions, "a new message came before the answer");
    }
    events
}

/// The events that withdraw questions.
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
    for Question { id, call, request } in questions {
        match request {
            QuestionRequest::Confirmation(_) => {
                let answer = json!({"confirmed": false, SUPERSEDED: reason});
                push_response(events, call, (id, request.name()), answer);
            }
            QuestionRequest::Input(_) => {
                let answer = json!({"action": "cancel", SUPERSEDED: reason});
                push_response(events, call, (id, request.name()), answer);
                // The call is in progress, and ends without a result.
                push_response(events, call, (&call.id(), call.name()), json!({"error": INTERRUPTED_CALL}));
            }
        }
    }
}

/// Adjacent responses of one agent and one invocation share an event, as those of parallel calls do.
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
