//! What the next step depends on, wherever in the history it happened: kept up to date event by event.

use crate::{
    content::{Content, Data, FunctionCall, FunctionResponse, Part},
    event::{Event, ToolConfirmation},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the call by which a person is asked to confirm another call.
pub const REQUEST_CONFIRMATION: &str = "adk_request_confirmation";

/// In an answer of the runner's own: why nobody's answer is waited for any more.
pub(crate) const SUPERSEDED: &str = "superseded";

/// A call with what must be known to run it, answer it, or show it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The part that holds the call, signature included. Its id is never empty.
    pub part: Part,
    pub author: String,
    pub invocation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default)]
    pub long_running: bool,
    /// What a person answered when asked about this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ToolConfirmation>,
    /// It was written down that it begins. Without an answer it may have taken effect, or not.
    #[serde(default, skip_serializing)]
    pub begun: bool,
}

impl PendingCall {
    pub fn id(&self) -> String {
        self.part.call().map(FunctionCall::id_or_name).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.part.call().map_or("", |call| call.name.as_str())
    }
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the [`REQUEST_CONFIRMATION`] call, which the answer repeats.
    pub id: String,
    pub call: PendingCall,
    pub confirmation: ToolConfirmation,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingWork {
    /// Who has the word: the agent that spoke last, or that was handed the conversation.
    pub active_agent: Option<String>,
    /// Calls without any answer, in order. A call that a person has just confirmed is open again.
    pub open_calls: Vec<PendingCall>,
    pub questions: Vec<Question>,
    /// Calls that were answered for now and that are known here: a late result belongs to one of them.
    pub deferred: Vec<PendingCall>,
}

/// One change of the pending. Changes are small and independent, so that a store can keep each fact in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingChange {
    Active(String),
    Opened(PendingCall),
    /// Answered for good.
    Closed {
        id: String,
    },
    /// Answered for now: a long-running call whose result may come much later.
    Deferred(PendingCall),
    Asked(Question),
    Settled {
        id: String,
    },
}

impl PendingWork {
    /// The question that a person was asked about the call and has not answered.
    pub fn question_about(&self, call: &PendingCall) -> Option<&Question> {
        let waits = call.confirmation.is_none();
        self.questions.iter().find(|question| waits && question.call.id() == call.id())
    }

    pub fn apply(&mut self, change: &PendingChange) {
        match change {
            PendingChange::Active(name) => self.active_agent = Some(name.clone()),
            PendingChange::Opened(call) => {
                let id = call.id();
                self.open_calls.retain(|open| open.id() != id);
                self.open_calls.push(call.clone());
            }
            PendingChange::Closed { id } => self.open_calls.retain(|open| &open.id() != id),
            PendingChange::Deferred(call) => {
                let id = call.id();
                self.open_calls.retain(|open| open.id() != id);
                self.deferred.retain(|known| known.id() != id);
                self.deferred.push(call.clone());
            }
            PendingChange::Asked(question) => self.questions.push(question.clone()),
            PendingChange::Settled { id } => self.questions.retain(|question| &question.id != id),
        }
    }

    /// How an event changes what is known.
    pub fn changes(&self, event: &Event) -> Vec<PendingChange> {
        let mut changes = self.answers(event);
        let calls = event.content.iter().flat_map(|content| self.new_calls(event, content));
        changes.extend(calls);
        let active = takes_the_word(event).filter(|name| self.active_agent.as_ref() != Some(*name));
        changes.extend(active.map(|name| PendingChange::Active(name.clone())));
        changes
    }

    fn new_calls(&self, event: &Event, content: &Content) -> Vec<PendingChange> {
        let parts = content.parts.iter().filter(|part| part.call().is_some());
        parts.filter_map(|part| self.new_call(event, part)).collect()
    }

    fn new_call(&self, event: &Event, part: &Part) -> Option<PendingChange> {
        let call = part.call()?;
        if is_question(event, call) {
            return self.question(call).map(PendingChange::Asked);
        }
        let mut part = part.clone();
        let id = call.id_or_name();
        if let Data::FunctionCall(call) = &mut part.data {
            call.id = Some(id.clone());
        }
        Some(PendingChange::Opened(PendingCall {
            part,
            author: event.author.clone(),
            invocation_id: event.invocation_id.clone(),
            branch: event.branch.clone(),
            long_running: event.long_running_tool_ids.as_ref().is_some_and(|ids| ids.contains(&id)),
            confirmation: None,
            begun: false,
        }))
    }

    fn question(&self, request: &FunctionCall) -> Option<Question> {
        let args = request.args.as_ref()?;
        let original: FunctionCall =
            serde_json::from_value(args.get("originalFunctionCall")?.clone()).ok()?;
        let confirmation = serde_json::from_value(args.get("toolConfirmation")?.clone()).ok()?;
        let id = original.id_or_name();
        let call = self.open_calls.iter().find(|open| open.id() == id)?.clone();
        Some(Question { id: request.id_or_name(), call, confirmation })
    }

    fn answers(&self, event: &Event) -> Vec<PendingChange> {
        event.responses().flat_map(|response| self.answered(event, response)).collect()
    }

    fn answered(&self, event: &Event, response: &FunctionResponse) -> Vec<PendingChange> {
        let id = response.id_or_name();
        if let Some(question) = self.questions.iter().find(|question| question.id == id) {
            return settle(question, event, response);
        }
        if !event.is_from_user() {
            let open = self.open_calls.iter().find(|call| call.id() == id && call.long_running);
            return vec![
                open.map_or(PendingChange::Closed { id }, |call| PendingChange::Deferred(call.clone())),
            ];
        }
        // A late result wakes the agent that asked for it.
        let asker = self
            .deferred
            .iter()
            .find(|call| call.id() == id)
            .map(|call| PendingChange::Active(call.author.clone()));
        std::iter::once(PendingChange::Closed { id }).chain(asker).collect()
    }
}

/// Who has the word from this event on, if it changes that: who spoke, or who was handed the conversation. A tool's
/// answer may come after its agent has given the word away.
fn takes_the_word(event: &Event) -> Option<&String> {
    let speaks = event.content.is_some() && event.responses().next().is_none() && !event.is_from_user();
    event.actions.transfer_to_agent.as_ref().or(speaks.then_some(&event.author))
}

/// Whether this is the runner asking a person. A model may use the name too, but its call is not long-running.
pub(crate) fn is_question(event: &Event, call: &FunctionCall) -> bool {
    let long = event.long_running_tool_ids.as_deref().unwrap_or_default();
    call.name == REQUEST_CONFIRMATION && call.id.as_ref().is_some_and(|id| long.contains(id))
}

/// An answer reopens the call with the answer attached, unless the question was overtaken by a new message.
fn settle(question: &Question, event: &Event, response: &FunctionResponse) -> Vec<PendingChange> {
    let settled = PendingChange::Settled { id: question.id.clone() };
    let answer = response.response.clone().unwrap_or_default();
    if !event.is_from_user() && answer.contains_key(SUPERSEDED) {
        return vec![settled];
    }
    let call = PendingCall { confirmation: Some(confirmation(answer)), ..question.call.clone() };
    vec![settled, PendingChange::Opened(call)]
}

/// What a person answered. ADK's own page wraps it in a string; what cannot be read is no consent.
fn confirmation(mut answer: Map<String, Value>) -> ToolConfirmation {
    let wrapped = if answer.len() == 1 { answer.remove("response") } else { None };
    let answer = match wrapped {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        Some(other) => other,
        None => Value::Object(answer),
    };
    serde_json::from_value(answer).unwrap_or_default()
}
