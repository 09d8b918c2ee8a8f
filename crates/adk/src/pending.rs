//! Pending work: the derived state of a log that the next step depends on (open calls, open confirmations, deferred calls,
//! the active agent). It is updated event by event, so that the whole log need not be read.

use crate::{
    content::{Content, Data, FunctionCall, FunctionResponse, Part},
    event::{Event, ToolConfirmation},
    input::{InputAnswer, InputRequest, REQUEST_INPUT},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// ADK's name of the call that asks the user to confirm another call.
pub const REQUEST_CONFIRMATION: &str = "adk_request_confirmation";

/// The argument of a question with the call that it is about. A question for input has it in its payload.
pub(crate) const ORIGINAL_CALL: &str = "originalFunctionCall";

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
    /// The user's answer to the last question that the call asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputAnswer>,
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

/// A question that waits for the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the question's call; the user's response has the same id.
    pub id: String,
    pub call: PendingCall,
    #[serde(flatten)]
    pub request: QuestionRequest,
}

/// What the user is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionRequest {
    /// [`REQUEST_CONFIRMATION`]: whether the call may run.
    Confirmation(ToolConfirmation),
    /// [`REQUEST_INPUT`]: values for the call, which is in progress.
    Input(InputRequest),
}

impl QuestionRequest {
    /// The name of the question's call.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Confirmation(_) => REQUEST_CONFIRMATION,
            Self::Input(_) => REQUEST_INPUT,
        }
    }

    pub fn input(&self) -> Option<&InputRequest> {
        match self {
            Self::Confirmation(_) => None,
            Self::Input(request) => Some(request),
        }
    }
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
        let is_open = call.confirmation.is_none() && call.input.is_none();
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
            input: None,
            begun: false,
        }))
    }

    fn question(&self, request: &FunctionCall) -> Option<Question> {
        let args = request.args.as_ref()?;
        let original: FunctionCall = serde_json::from_value(original_call(request)?.clone()).ok()?;
        let asked = if request.name == REQUEST_INPUT {
            QuestionRequest::Input(input_request(args)?)
        } else {
            QuestionRequest::Confirmation(serde_json::from_value(args.get("toolConfirmation")?.clone()).ok()?)
        };
        let id = original.id_or_name();
        let call = self.open_calls.iter().find(|open| open.id() == id)?.clone();
        Some(Question { id: request.id_or_name(), call, request: asked })
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

/// Whether calls of this name are questions to the user.
pub fn is_question_name(name: &str) -> bool {
    [REQUEST_CONFIRMATION, REQUEST_INPUT].contains(&name)
}

/// Whether the call is a question by the runner. A model may call the same name, but then the call is not long-running. ADK has a
/// long-running tool for input, which a model calls itself, about no other call.
pub(crate) fn is_question(event: &Event, call: &FunctionCall) -> bool {
    let long = event.long_running_tool_ids.as_deref().unwrap_or_default();
    let is_kind =
        call.name == REQUEST_CONFIRMATION || (call.name == REQUEST_INPUT && original_call(call).is_some());
    is_kind && call.id.as_ref().is_some_and(|id| long.contains(id))
}

/// The call that a question is about.
pub fn original_call(question: &FunctionCall) -> Option<&Value> {
    let args = question.args.as_ref()?;
    match question.name.as_str() {
        REQUEST_INPUT => args.get("payload")?.get(ORIGINAL_CALL),
        _ => args.get(ORIGINAL_CALL),
    }
}

fn input_request(args: &Map<String, Value>) -> Option<InputRequest> {
    let mut payload = args.get("payload")?.as_object()?.clone();
    payload.shift_remove(ORIGINAL_CALL);
    let message = args.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(InputRequest { message, schema: args.get("response_schema")?.clone(), payload })
}

/// A reply opens the call again with the answer attached, unless the runner withdrew the question.
fn settle(question: &Question, event: &Event, response: &FunctionResponse) -> Vec<PendingChange> {
    let settled = PendingChange::Settled { id: question.id.clone() };
    let answer = response.response.clone().unwrap_or_default();
    if !event.is_from_user() && answer.contains_key(SUPERSEDED) {
        return vec![settled];
    }
    let call = question.call.clone();
    let call = match &question.request {
        QuestionRequest::Confirmation(_) => PendingCall { confirmation: Some(confirmation(answer)), ..call },
        // Answers are checked before they are stored.
        QuestionRequest::Input(request) => {
            PendingCall { input: Some(request.parse_answer(&answer).unwrap_or(InputAnswer::Cancel)), ..call }
        }
    };
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
