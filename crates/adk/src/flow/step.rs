//! What is next: a pure function of the log.

use crate::{
    event::Event,
    facts::{Call, Facts},
};

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model of the agent that has the word.
    CallModel,
    CallTools(Vec<Call>),
    /// The agent has said its word, or waits for a person.
    Done,
}

/// Decides from the end of the log and from the facts, so that it does not matter how much of the log is in memory.
pub fn next_step(last: Option<&Event>, facts: &Facts) -> Step {
    let runnable: Vec<Call> =
        facts.open_calls.iter().filter(|call| !is_asked(call, facts)).cloned().collect();
    if !runnable.is_empty() {
        return Step::CallTools(runnable);
    }
    let waits = !facts.questions.is_empty();
    match last {
        Some(_) if waits => Step::Done,
        Some(event) if event.is_from_user() => Step::CallModel,
        Some(event) if event.responses().next().is_some() && !event.is_final_response() => Step::CallModel,
        Some(_) | None => Step::Done,
    }
}

/// A call that a person was asked about runs when the answer is there.
fn is_asked(call: &Call, facts: &Facts) -> bool {
    call.confirmation.is_none() && facts.questions.iter().any(|question| question.call.id() == call.id())
}
