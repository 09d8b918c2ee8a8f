//! Running calls: in parallel, each on its own, and every one of them gets an answer.

use super::transfer::{self, Handover};
use crate::{
    agent::{AgentTree, Node},
    content::{FunctionCall, FunctionResponse, Part},
    error::{RunError, ToolError},
    event::{Event, EventActions, ToolConfirmation, mint_call_id},
    facts::{Call, REQUEST_CONFIRMATION},
    tool::{ToolContext, ToolOutcome},
};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// What a step of calls came to.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// One response for each call, in the order of the calls.
    pub(crate) responses: Vec<Part>,
    pub(crate) actions: EventActions,
    /// Calls that a person must be asked about.
    pub(crate) questions: Vec<(FunctionCall, ToolConfirmation)>,
    /// The run ends with this after the answers are stored.
    pub(crate) fault: Option<RunError>,
}

/// One call with everything that its task needs.
pub(crate) struct Task<'a> {
    pub(crate) call: &'a Call,
    pub(crate) node: &'a Node,
    pub(crate) context: ToolContext,
    pub(crate) timeout: Duration,
}

enum Answer {
    Said(Value),
    /// Said, and the model is not asked to go on.
    Waits(Value),
    Asks(ToolConfirmation),
}

/// Runs all calls at the same time. A tool that fails, panics or takes too long answers with its error; its siblings
/// are not disturbed.
pub(crate) async fn run(tree: &AgentTree, events: &[Arc<Event>], tasks: Vec<Task<'_>>) -> Answers {
    let outcomes = join_all(tasks.iter().map(run_one)).await;
    let mut answers = Answers::default();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        answers.actions.merge(task.context.take_actions());
        if task.call.name() == transfer::TRANSFER {
            hand_over(&mut answers, tree, events, task);
        } else {
            take(&mut answers, task, outcome);
        }
    }
    answers
}

async fn run_one(task: &Task<'_>) -> Result<Answer, ToolError> {
    let Some(call) = task.call.part.call().filter(|call| call.name != transfer::TRANSFER) else {
        return Ok(Answer::Said(Value::Null));
    };
    let Some(armed) = task.node.tools.get(&call.name) else {
        let mut known: Vec<&str> = task.node.tools.keys().map(String::as_str).collect();
        known.sort_unstable();
        return Err(ToolError::Unknown { name: call.name.clone(), known: known.join(", ") });
    };
    let args = call.args.clone().unwrap_or_default();
    check(&armed.schema, &args)?;
    if task.context.confirmation.as_ref().is_some_and(|answer| !answer.confirmed) {
        return Ok(Answer::Said(json!({"error": "This tool call is rejected."})));
    }
    let (tool, context) = (Arc::clone(&armed.tool), task.context.clone());
    // A task of its own: a panic ends the task and not the turn. Dropping the handle aborts it.
    let running = AbortOnDrop(tokio::spawn(async move { tool.call(context, args).await }));
    match tokio::time::timeout(task.timeout, running).await {
        Err(_) => Err(ToolError::TimedOut(task.timeout)),
        Ok(Err(_)) => Err(ToolError::Panicked),
        Ok(Ok(outcome)) => Ok(match outcome? {
            ToolOutcome::Done(value) | ToolOutcome::Pending(Some(value)) => Answer::Said(value),
            ToolOutcome::Pending(None) => Answer::Waits(json!({"status": "pending"})),
            ToolOutcome::Ask(confirmation) => Answer::Asks(confirmation),
        }),
    }
}

fn check(schema: &jsonschema::Validator, args: &Map<String, Value>) -> Result<(), ToolError> {
    let args = Value::Object(args.clone());
    let faults: Vec<String> = schema.iter_errors(&args).take(5).map(|fault| fault.to_string()).collect();
    if faults.is_empty() { Ok(()) } else { Err(ToolError::Arguments(faults.join("; "))) }
}

fn take(answers: &mut Answers, task: &Task<'_>, outcome: Result<Answer, ToolError>) {
    match outcome {
        Ok(Answer::Said(value)) => answers.respond(task, value),
        Ok(Answer::Waits(value)) => {
            answers.actions.skip_summarization = Some(true);
            answers.respond(task, value);
        }
        Ok(Answer::Asks(confirmation)) => ask(answers, task, confirmation),
        Err(error) => answers.respond(task, json!({"error": error.to_string()})),
    }
}

fn ask(answers: &mut Answers, task: &Task<'_>, confirmation: ToolConfirmation) {
    let Some(call) = task.call.part.call() else { return };
    let asked = serde_json::to_value(&confirmation).unwrap_or_default();
    answers.actions.requested_tool_confirmations.insert(task.call.id(), asked);
    answers.actions.skip_summarization = Some(true);
    let told = "This tool call requires confirmation, please approve or reject.";
    answers.respond(task, json!({"error": told}));
    answers.questions.push((call.clone(), confirmation));
}

fn hand_over(answers: &mut Answers, tree: &AgentTree, events: &[Arc<Event>], task: &Task<'_>) {
    let args = task.call.part.call().and_then(|call| call.args.as_ref());
    let name = args.and_then(|args| args.get("agent_name")).and_then(Value::as_str).unwrap_or_default();
    if answers.actions.transfer_to_agent.is_some() || answers.fault.is_some() {
        return answers.respond(task, json!({"error": "the conversation has been handed over already"}));
    }
    match transfer::decide(tree, task.node, name, events) {
        Handover::To(target) => {
            answers.actions.transfer_to_agent = Some(target);
            answers.respond(task, json!({"result": null}));
        }
        Handover::Refused(reason) => answers.respond(task, json!({"error": reason})),
        Handover::Nowhere(name) => answers.fail(task, RunError::AgentNotFound { name }),
        Handover::Loop(path) => answers.fail(task, RunError::TransferLoop { path }),
    }
}

impl Answers {
    fn respond(&mut self, task: &Task<'_>, value: Value) {
        let response = match value {
            Value::Object(map) => map,
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        self.responses.push(Part::from(FunctionResponse {
            id: Some(task.call.id()),
            name: task.call.name().to_owned(),
            response: Some(response),
            ..FunctionResponse::default()
        }));
    }

    fn fail(&mut self, task: &Task<'_>, fault: RunError) {
        self.respond(task, json!({"error": fault.to_string()}));
        self.fault = Some(fault);
    }
}

/// The call by which a person is asked about another call.
pub(crate) fn question(call: &FunctionCall, confirmation: &ToolConfirmation) -> FunctionCall {
    let args = json!({"originalFunctionCall": call, "toolConfirmation": confirmation});
    FunctionCall {
        id: Some(mint_call_id()),
        args: args.as_object().cloned(),
        name: REQUEST_CONFIRMATION.to_owned(),
        extra: Map::new(),
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(cx)
    }
}
