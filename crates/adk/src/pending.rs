//! Pending work: the derived state of a log that the next step depends on (open calls, open confirmations, deferred calls,
//! the active agent). It is updated event by event, so that the whole log need not be read.

use crate::{
    content::{Content, Data, FunctionCall, FunctionResponse, Part},
    event::{Event, ToolConfirmation},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// ADK's name of the call that asks the user to confirm another call.
pub const REQUEST_CONFIRMATION: &str = "adk_request_confirmation";

/// The field of a runner-made response that withdraws a question; its value is the reason.
pub(crate) const SUPERSEDED: &str = "superseded";

/// A call with everything that is needed to run it, respond to it, or show it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The part with the call and its signature. The call's id is never empty.
    pub part: Part,
    pub author: String,
    pub invocation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default)]
    pub long_running: bool,
    /// The user's reply to the question about this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ToolConfirmation>,
    /// Whether the ledger records that the call began. If it has no response, its outcome is unknown.
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

/// A confirmation that waits for the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the [`REQUEST_CONFIRMATION`] call; the user's response has the same id.
    pub id: String,
    pub call: PendingCall,
    pub confirmation: ToolConfirmation,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingWork {
    /// The agent that answered last, or the target of the last transfer.
    pub active_agent: Option<String>,
    /// Calls without a response, in order. A reply to a question opens its call again.
    pub open_calls: Vec<PendingCall>,
    pub questions: Vec<Question>,
    /// Acknowledged long-running calls that are in memory: a late result belongs to one of them.
    pub deferred: Vec<PendingCall>,
}

/// One change of the pending work. A store can keep each item in a separate row.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingChange {
    Active(String),
    Opened(PendingCall),
    /// Completed: the call has its final response.
    Closed {
        id: String,
    },
    /// Acknowledged: a long-running call with a provisional response; the final result arrives later.
    Deferred(PendingCall),
    Asked(Question),
    Settled {
        id: String,
    },
}

impl PendingWork {
    /// The unanswered question about a call.
    pub fn question_about(&self, call: &PendingCall) -> Option<&Question> {
        let is_open = call.confirmation.is_none();
        self.questions.iter().find(|question| is_open && question.call.id() == call.id())
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

    /// The changes that an event makes.
    pub fn changes(&self, event: &Event) -> Vec<PendingChange> {
        let mut changes = self.response_changes(event);
        let calls = event.content.iter().flat_map(|content| self.new_calls(event, content));
        changes.extend(calls);
        let active = new_active_agent(event).filter(|name| self.active_agent.as_ref() != Some(*name));
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

    fn response_changes(&self, event: &Event) -> Vec<PendingChange> {
        event.responses().flat_map(|response| self.response_change(event, response)).collect()
    }

    fn response_change(&self, event: &Event, response: &FunctionResponse) -> Vec<PendingChange> {
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
        // A late result activates the agent that made the call.
        let caller = self
            .deferred
            .iter()
            .find(|call| call.id() == id)
            .map(|call| PendingChange::Active(call.author.clone()));
        std::iter::once(PendingChange::Closed { id }).chain(caller).collect()
    }
}

/// The agent that is active after this event, if the event changes that: its author, or the target of its transfer. Events with
/// responses do not count, because they may follow a transfer.
fn new_active_agent(event: &Event) -> Option<&String> {
    let is_answer = event.content.is_some() && event.responses().next().is_none() && !event.is_from_user();
    event.actions.transfer_to_agent.as_ref().or(is_answer.then_some(&event.author))
}

/// Whether the call is a question by the runner. A model may call the same name, but then the call is not long-running.
pub(crate) fn is_question(event: &Event, call: &FunctionCall) -> bool {
    let long = event.long_running_tool_ids.as_deref().unwrap_or_default();
    call.name == REQUEST_CONFIRMATION && call.id.as_ref().is_some_and(|id| long.contains(id))
}

/// A reply opens the call again with the confirmation attached, unless the runner withdrew the question.
fn settle(question: &Question, event: &Event, response: &FunctionResponse) -> Vec<PendingChange> {
    let settled = PendingChange::Settled { id: question.id.clone() };
    let answer = response.response.clone().unwrap_or_default();
    if !event.is_from_user() && answer.contains_key(SUPERSEDED) {
        return vec![settled];
    }
    let call = PendingCall { confirmation: Some(confirmation(answer)), ..question.call.clone() };
    vec![settled, PendingChange::Opened(call)]
}

/// The user's reply. ADK's web page wraps it in a string. A reply that does not parse is a rejection.
fn confirmation(mut answer: Map<String, Value>) -> ToolConfirmation {
    let wrapped = if answer.len() == 1 { answer.remove("response") } else { None };
    let answer = match wrapped {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        Some(other) => other,
        None => Value::Object(answer),
    };
    serde_json::from_value(answer).unwrap_or_default()
}
