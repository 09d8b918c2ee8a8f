//! Running calls: in parallel, each on its own, and every one of them gets an answer.

use super::{
    settle, spans,
    transfer::{self, TransferDecision},
};
use crate::{
    agent::{AgentTree, Node},
    content::{FunctionCall, FunctionResponse, Part},
    error::{RunError, ToolError},
    event::{Event, EventActions, ToolConfirmation, mint_call_id},
    pending::{PendingCall, REQUEST_CONFIRMATION},
    tool::{Tool, ToolContext, ToolOutcome},
    trace::Trace,
};
use failpoint::Point;
use futures::future::join_all;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// How many letters of arguments that cannot be read a model is shown again.
const MOST_QUOTED: usize = 400;

/// What a step of calls came to.
#[derive(Debug, Default)]
pub(crate) struct StepResults {
    /// One response for each call, in the order of the calls.
    pub(crate) responses: Vec<Part>,
    pub(crate) actions: EventActions,
    /// How many have nothing to tell a model yet. If all of them, it is not asked to go on.
    waiting: usize,
    /// Calls that a person must be asked about.
    pub(crate) questions: Vec<(FunctionCall, ToolConfirmation)>,
    /// The run ends with this after the answers are stored.
    pub(crate) fault: Option<RunError>,
}

/// One call with everything that its task needs.
pub(crate) struct CallTask<'a> {
    pub(crate) call: &'a PendingCall,
    pub(crate) node: &'a Node,
    pub(crate) context: ToolContext,
    pub(crate) timeout: Duration,
    pub(crate) trace: Trace,
    /// The event that the answer will be in.
    pub(crate) event_id: &'a str,
}

enum CallOutcome {
    Said(Value),
    /// ContentRef, and the model is not asked to go on.
    Waits(Value),
    Asks(ToolConfirmation),
}

/// Runs all calls at the same time. A tool that fails, panics or takes too long answers with its error; its siblings
/// are not disturbed.
pub(crate) async fn run(tree: &AgentTree, events: &[Arc<Event>], tasks: Vec<CallTask<'_>>) -> StepResults {
    let outcomes = join_all(tasks.iter().map(run_recorded)).await;
    let mut answers = StepResults::default();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        answers.actions.merge(task.context.take_actions());
        if task.call.name() == transfer::TRANSFER && outcome.is_ok() {
            hand_over(&mut answers, tree, events, task);
        } else {
            take(&mut answers, task, outcome);
        }
    }
    if answers.waiting == tasks.len() {
        answers.actions.skip_summarization = Some(true);
    }
    answers
}

async fn run_recorded(task: &CallTask<'_>) -> Result<CallOutcome, ToolError> {
    let mut span = spans::tool(task);
    let outcome = run_one(task).await;
    match &outcome {
        Ok(CallOutcome::Said(value) | CallOutcome::Waits(value)) => {
            span.set_content("gen_ai.tool.call.result", || value.clone());
        }
        Ok(CallOutcome::Asks(_)) => span.set("lango.tool.outcome", "asks"),
        Err(error) => span.fail(spans::tool_error_type(error)),
    }
    outcome
}

async fn run_one(task: &CallTask<'_>) -> Result<CallOutcome, ToolError> {
    if let Some(written) = task.call.part.call().and_then(FunctionCall::malformed_args) {
        return Err(ToolError::NotJson(shortened(written)));
    }
    let Some(call) = task.call.part.call().filter(|call| call.name != transfer::TRANSFER) else {
        return Ok(CallOutcome::Said(Value::Null));
    };
    let args = call.args.clone().unwrap_or_default();
    let tool = match task.node.tools.get(&call.name) {
        Some(compiled) => {
            check(&compiled.schema, &args)?;
            Arc::clone(&compiled.tool)
        }
        None => found(task, &call.name, &args).await?,
    };
    if task.context.confirmation.as_ref().is_some_and(|answer| !answer.confirmed) {
        return Ok(CallOutcome::Said(json!({"error": "This tool call is rejected."})));
    }
    let context = task.context.clone();
    if task.context.cancel.is_cancelled() {
        return Err(ToolError::Interrupted);
    }
    // A task of its own: a panic ends the task and not the turn. Dropping the handle aborts it.
    let running = AbortOnDrop(tokio::spawn(async move {
        failpoint::around([Point::BeforeToolCall, Point::AfterToolCall], tool.call(context, args)).await
    }));
    let outcome = tokio::select! {
        biased;
        outcome = running => outcome.map_err(|_| ToolError::Panicked)??,
        () = task.context.cancel.cancelled() => return Err(ToolError::Interrupted),
        () = tokio::time::sleep(task.timeout) => return Err(ToolError::TimedOut(task.timeout)),
    };
    Ok(match outcome {
        ToolOutcome::Done(value) | ToolOutcome::Pending(Some(value)) => CallOutcome::Said(value),
        ToolOutcome::Pending(None) => CallOutcome::Waits(json!({"status": "pending"})),
        ToolOutcome::Ask(confirmation) => CallOutcome::Asks(confirmation),
    })
}

/// A tool that is not the agent's own, if it is there now.
async fn found(
    task: &CallTask<'_>,
    name: &str,
    args: &Map<String, Value>,
) -> Result<Arc<dyn Tool>, ToolError> {
    let all = task.node.all_tools(&task.context.cancel).await.ok_or(ToolError::Interrupted)?;
    let Some(tool) = all.iter().find(|tool| tool.declaration().name == name) else {
        let known: Vec<&str> = all.iter().map(|tool| tool.declaration().name.as_str()).collect();
        return Err(ToolError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    // Whoever offers a schema that cannot be read checks the arguments alone.
    if let Ok(schema) = jsonschema::validator_for(&tool.declaration().parameters_json_schema) {
        check(&schema, args)?;
    }
    Ok(Arc::clone(tool))
}

/// Enough of it to see the mistake.
fn shortened(written: &str) -> String {
    match written.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}…", &written[..end]),
        None => written.to_owned(),
    }
}

fn check(schema: &jsonschema::Validator, args: &Map<String, Value>) -> Result<(), ToolError> {
    let args = Value::Object(args.clone());
    let faults: Vec<String> = schema.iter_errors(&args).take(5).map(|fault| fault.to_string()).collect();
    if faults.is_empty() { Ok(()) } else { Err(ToolError::Arguments(faults.join("; "))) }
}

fn take(answers: &mut StepResults, task: &CallTask<'_>, outcome: Result<CallOutcome, ToolError>) {
    match outcome {
        Ok(CallOutcome::Said(value)) => answers.respond(task, value),
        Ok(CallOutcome::Waits(value)) => {
            answers.waiting += 1;
            answers.respond(task, value);
        }
        Ok(CallOutcome::Asks(confirmation)) => ask(answers, task, confirmation),
        Err(error) => answers.respond(task, json!({"error": error.to_string()})),
    }
}

fn ask(answers: &mut StepResults, task: &CallTask<'_>, confirmation: ToolConfirmation) {
    let Some(call) = task.call.part.call() else { return };
    let asked = serde_json::to_value(&confirmation).unwrap_or_default();
    answers.actions.requested_tool_confirmations.insert(task.call.id(), asked);
    answers.waiting += 1;
    answers.respond(task, json!({"error": settle::UNCONFIRMED}));
    answers.questions.push((call.clone(), confirmation));
}

fn hand_over(answers: &mut StepResults, tree: &AgentTree, events: &[Arc<Event>], task: &CallTask<'_>) {
    let args = task.call.part.call().and_then(|call| call.args.as_ref());
    let Some(name) = args.and_then(|args| args.get("agent_name")).and_then(Value::as_str) else {
        return answers
            .respond(task, json!({"error": "the arguments need agent_name, the name of an agent"}));
    };
    if answers.actions.transfer_to_agent.is_some() || answers.fault.is_some() {
        return answers.respond(task, json!({"error": "the conversation is handed over once at a time"}));
    }
    match transfer::decide(tree, task.node, name, events) {
        TransferDecision::To(target) => {
            answers.actions.transfer_to_agent = Some(target);
            answers.respond(task, json!({"result": null}));
        }
        TransferDecision::Refused(reason) => answers.respond(task, json!({"error": reason})),
        TransferDecision::Nowhere(name) => answers.fail(task, RunError::AgentNotFound { name }),
        TransferDecision::Loop(path) => answers.fail(task, RunError::TransferLoop { path }),
    }
}

impl StepResults {
    fn respond(&mut self, task: &CallTask<'_>, value: Value) {
        self.responses.push(Part::from(FunctionResponse::new(task.call.id(), task.call.name(), value)));
    }

    fn fail(&mut self, task: &CallTask<'_>, fault: RunError) {
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
