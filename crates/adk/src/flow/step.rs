//! The next step: a pure function of the log.

use crate::{
    event::Event,
    pending::{PendingCall, PendingWork},
};

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Call the model of the active agent.
    CallModel,
    CallTools(Vec<PendingCall>),
    /// The answer is final, or the run waits for the user.
    Done,
}

/// Decides from the last event and the pending work, so that it does not matter how much of the log is in memory.
pub fn next_step(last: Option<&Event>, pending: &PendingWork) -> Step {
    let runnable = runnable(pending);
    if !runnable.is_empty() {
        return Step::CallTools(runnable);
    }
    // A question of another run does not block the run at the end of the log.
    let waits = |event: &Event| {
        pending.questions.iter().any(|question| question.call.invocation_id == event.invocation_id)
    };
    match last {
        Some(event) if event.is_from_user() => Step::CallModel,
        // A resumed run continues after the emitted part of its answer.
        Some(event) if event.is_interrupted_answer() => Step::CallModel,
        Some(event) if waits(event) => Step::Done,
        Some(event) if event.responses().next().is_some() && !event.is_final_response() => Step::CallModel,
        Some(_) | None => Step::Done,
    }
}

/// The open calls of one agent: their responses share an event.
fn runnable(pending: &PendingWork) -> Vec<PendingCall> {
    let open = pending.open_calls.iter().filter(|call| pending.question_about(call).is_none());
    let mut calls: Vec<PendingCall> = open.cloned().collect();
    if let Some(author) = calls.first().map(|call| call.author.clone()) {
        calls.retain(|call| call.author == author);
    }
    calls
}
