//! A model whose answer depends on its request alone, so that a resumed run gets the same answer. Every request is
//! checked against the rules of each provider.

use crate::{
    case::{Scenario, StoreKind},
    report::{Line, Reporter},
};
use futures::{StreamExt, future, stream};
use provider::{
    Done, MessagePart, ModelMessage, ModelRequest, ModelStream, Provider, Role, StreamEvent, ToolCall,
};
use serde_json::{Value, json};
use std::{collections::VecDeque, process, sync::Arc, time::Duration};
use testkit::{ProviderApi, legal};
use tokio::sync::{Notify, watch};

/// State that the client, the models and the tools of one process share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) store: StoreKind,
    pub(crate) scenario: Scenario,
    /// Within an answer, after its beginning was streamed.
    pub(crate) pause: Duration,
    /// The process aborts within the run.
    pub(crate) aborts: bool,
    /// Opened when all queued messages are accepted.
    pub(crate) gate: watch::Sender<bool>,
    /// An answer has started that streams until it is cancelled.
    pub(crate) stalled: watch::Sender<bool>,
    /// The tasks on a memory store are to be dropped.
    pub(crate) aborted: Notify,
    pub(crate) out: Arc<Reporter>,
}

impl SharedState {
    /// Ends the process, or drops its tasks.
    pub(crate) async fn abort(&self) {
        match self.store {
            StoreKind::Sqlite => process::abort(),
            StoreKind::Memory => {
                self.aborted.notify_one();
                future::pending::<()>().await;
            }
        }
    }

    async fn wait_for_gate(&self) {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
    }
}

enum ModelAction {
    Text(&'static str),
    Call(&'static str, Value),
    Gate,
    Pause,
    /// Streams until the run is cancelled.
    Stall,
    /// Aborts the process if the case requires it.
    Abort,
    /// The answer to a message that only waits in the queue.
    Repeat(String),
}

/// The model of one agent.
pub(crate) struct Model {
    pub(crate) agent: &'static str,
    pub(crate) shared: Arc<SharedState>,
}

impl Provider for Model {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        for fault in faults(&request) {
            self.shared.out.report(Line::Problem(format!("illegal request: {fault}")));
        }
        let actions = VecDeque::from(self.answer(&request.messages));
        let state = (actions, Arc::clone(&self.shared), false);
        stream::unfold(state, |(mut actions, shared, is_over)| async move {
            if is_over {
                return None;
            }
            let event = next(&mut actions, &shared).await;
            let is_over = event.is_none();
            Some((event.unwrap_or(StreamEvent::Done(Done::default())), (actions, shared, is_over)))
        })
        .boxed()
    }
}

async fn next(actions: &mut VecDeque<ModelAction>, shared: &SharedState) -> Option<StreamEvent> {
    loop {
        match actions.pop_front()? {
            ModelAction::Text(text) => return Some(StreamEvent::text(text)),
            ModelAction::Repeat(text) => return Some(StreamEvent::text(text)),
            ModelAction::Call(name, args) => {
                let args = args.as_object().cloned().unwrap_or_default();
                let call = ToolCall { name: name.to_owned(), args, ..ToolCall::default() };
                return Some(StreamEvent::ToolCall(call));
            }
            ModelAction::Gate => shared.wait_for_gate().await,
            ModelAction::Pause => tokio::time::sleep(shared.pause).await,
            ModelAction::Stall => {
                shared.stalled.send_replace(true);
                future::pending::<()>().await;
            }
            ModelAction::Abort if shared.aborts => shared.abort().await,
            ModelAction::Abort => {}
        }
    }
}

impl Model {
    fn answer(&self, messages: &[ModelMessage]) -> Vec<ModelAction> {
        let Some((at, name)) = newest_message(messages) else {
            return vec![ModelAction::Text("Who are you?")];
        };
        let has_response = |response: &Value| {
            messages.iter().flat_map(ModelMessage::results).any(|result| result.response == *response)
        };
        if has_response(&finished()) && name != "n" {
            return vec![ModelAction::Text("It "), ModelAction::Text("finished.")];
        }
        if name != "m" {
            let is_long = name == "s" && self.shared.scenario == Scenario::Superseded;
            return if is_long {
                long_text()
            } else {
                vec![ModelAction::Text("re "), ModelAction::Repeat(name)]
            };
        }
        let has_result = |tool: &str| {
            messages[at..].iter().flat_map(ModelMessage::results).any(|result| result.name == tool)
        };
        match self.shared.scenario {
            Scenario::Tool | Scenario::ParallelTools if has_result("act") => ending(),
            Scenario::LongRunning if has_result("job") => ending(),
            Scenario::Confirmation | Scenario::Superseded if has_result("danger") => {
                // If the call failed before the question was asked, no answer opens the gate.
                let gate = has_response(&done("danger")).then_some(ModelAction::Gate);
                gate.into_iter().chain(ending()).collect()
            }
            Scenario::Transfer if self.agent != "root" => long_text(),
            scenario => first_answer(scenario),
        }
    }
}

/// The first answer to the first message.
fn first_answer(scenario: Scenario) -> Vec<ModelAction> {
    match scenario {
        Scenario::Text => long_text(),
        Scenario::Tool => {
            vec![
                ModelAction::Gate,
                ModelAction::Text("Let me see. "),
                ModelAction::Call("act", json!({"at": 1})),
            ]
        }
        Scenario::ParallelTools => vec![
            ModelAction::Gate,
            ModelAction::Call("look", json!({})),
            ModelAction::Call("act", json!({})),
            ModelAction::Call("repeat", json!({})),
        ],
        Scenario::Transfer => {
            let call = ModelAction::Call("transfer_to_agent", json!({"agent_name": "helper"}));
            vec![ModelAction::Text("Ask the helper. "), call]
        }
        Scenario::Confirmation | Scenario::Superseded => {
            vec![ModelAction::Text("May I? "), ModelAction::Call("danger", json!({}))]
        }
        Scenario::LongRunning => vec![ModelAction::Gate, ModelAction::Call("job", json!({}))],
        Scenario::Cancel => {
            vec![
                ModelAction::Gate,
                ModelAction::Text("On "),
                ModelAction::Text("and "),
                ModelAction::Pause,
                ModelAction::Text("on "),
                ModelAction::Stall,
            ]
        }
    }
}

/// The final text of a streamed answer.
pub(crate) const LONG_TEXT: &str = "Alpha beta gamma delta.";

fn long_text() -> Vec<ModelAction> {
    vec![
        ModelAction::Gate,
        ModelAction::Text("Alpha "),
        ModelAction::Text("beta "),
        ModelAction::Pause,
        ModelAction::Abort,
        ModelAction::Text("gamma "),
        ModelAction::Text("delta."),
    ]
}

/// The text after the tool results.
fn ending() -> Vec<ModelAction> {
    vec![ModelAction::Text("It "), ModelAction::Pause, ModelAction::Abort, ModelAction::Text("is done.")]
}

/// The late result.
pub(crate) fn finished() -> Value {
    json!({"status": "finished"})
}

/// The result of a tool.
pub(crate) fn done(tool: &str) -> Value {
    json!({"done": tool})
}

/// The text of the message of this name.
pub(crate) fn text(name: &str) -> String {
    format!("<{name}>")
}

/// The newest message of the client, and its index.
fn newest_message(messages: &[ModelMessage]) -> Option<(usize, String)> {
    messages.iter().enumerate().rev().find_map(|(at, message)| Some((at, name(message)?)))
}

fn name(message: &ModelMessage) -> Option<String> {
    let parts = message.parts.iter().rev().filter(|_| message.role == Role::User);
    let mut texts = parts.filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    texts.find_map(|text| Some(text.strip_prefix('<')?.strip_suffix('>')?.to_owned()))
}

/// The rules of the providers that a request violates.
pub(crate) fn faults(request: &ModelRequest) -> Vec<String> {
    let bodies = [
        (ProviderApi::OpenAi, provider::openai::encode(request, true)),
        (ProviderApi::Responses, provider::responses::encode(request, true)),
        (ProviderApi::Anthropic, provider::anthropic::encode(request, true)),
        (ProviderApi::Gemini, provider::gemini::encode(request, true)),
        (ProviderApi::Ollama, provider::ollama::encode(request, true)),
    ];
    let faults = bodies.iter().flat_map(|(api, body)| {
        legal::check(*api, body).into_iter().map(move |violation| format!("{api:?}: {violation} in {body}"))
    });
    faults.collect()
}
