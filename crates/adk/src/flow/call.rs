//! Runs the calls of a step in parallel, each in its own task. Every call gets a response.

use super::{
    spans,
    transfer::{self, TransferDecision},
};
use crate::{
    agent::{AgentTree, Node},
    content::{FunctionCall, FunctionResponse, Part},
    error::{RunError, ToolError},
    event::{Event, EventActions, ToolConfirmation, mint_call_id},
    notes::{AWAITING_INPUT, REJECTED_CALL, REJECTION_REASON, UNCONFIRMED_CALL},
    pending::{ORIGINAL_CALL, PendingCall, QuestionRequest},
    tool::{Tool, ToolContext, ToolOutcome},
    trace::Trace,
};
use failpoint::Point;
use futures::future::join_all;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// How many characters of malformed arguments the error quotes.
const MAX_QUOTED: usize = 400;

/// The results of one step of calls.
#[derive(Debug, Default)]
pub(crate) struct StepResults {
    /// One response per call, in the order of the calls.
    pub(crate) responses: Vec<Part>,
    pub(crate) actions: EventActions,
    /// How many responses are placeholders. If all are, the model is not called again.
    placeholders: usize,
    /// Calls about which the user is asked.
    pub(crate) questions: Vec<(FunctionCall, QuestionRequest)>,
    /// Ends the run after the responses are stored.
    pub(crate) fault: Option<RunError>,
}

/// One call with everything that its tokio task needs.
pub(crate) struct CallTask<'a> {
    pub(crate) call: &'a PendingCall,
    pub(crate) node: &'a Node,
    pub(crate) context: ToolContext,
    pub(crate) timeout: Duration,
    pub(crate) trace: Trace,
    /// The id of the event with the response.
    pub(crate) event_id: &'a str,
}

enum CallOutcome {
    Response(Value),
    /// A response that does not make the model continue.
    Placeholder(Value),
    Question(QuestionRequest),
}

/// Runs all calls concurrently. A tool that fails, panics or times out yields an error response; its siblings are not
/// affected.
pub(crate) async fn run(tree: &AgentTree, events: &[Arc<Event>], tasks: Vec<CallTask<'_>>) -> StepResults {
    let outcomes = join_all(tasks.iter().map(|task| run_traced(tree, task))).await;
    let mut results = StepResults::default();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        results.actions.merge(task.context.take_actions());
        if task.call.name() == transfer::TRANSFER && outcome.is_ok() {
            push_transfer(&mut results, tree, events, task);
        } else {
            push_outcome(&mut results, task, outcome);
        }
    }
    if results.placeholders == tasks.len() {
        results.actions.skip_summarization = Some(true);
    }
    results
}

async fn run_traced(tree: &AgentTree, task: &CallTask<'_>) -> Result<CallOutcome, ToolError> {
    let mut span = spans::start_tool(task);
    let outcome = run_one(tree, task).await;
    match &outcome {
        Ok(CallOutcome::Response(value) | CallOutcome::Placeholder(value)) => {
            span.set_content("gen_ai.tool.call.result", || value.clone());
        }
        Ok(CallOutcome::Question(_)) => span.set("lango.tool.outcome", "asks"),
        Err(error) => span.fail(spans::tool_error_type(error)),
    }
    outcome
}

async fn run_one(tree: &AgentTree, task: &CallTask<'_>) -> Result<CallOutcome, ToolError> {
    if let Some(raw) = task.call.part.call().and_then(FunctionCall::malformed_args) {
        return Err(ToolError::NotJson(truncate(raw)));
    }
    let Some(call) = task.call.part.call().filter(|call| call.name != transfer::TRANSFER) else {
        return Ok(CallOutcome::Response(Value::Null));
    };
    let args = call.args.clone().unwrap_or_default();
    let tool = match task.node.tools.get(&call.name) {
        Some(compiled) => {
            validate(&compiled.schema, &args)?;
            Arc::clone(&compiled.tool)
        }
        None => find_in_toolsets(tree, task, call).await?,
    };
    if let Some(answer) = task.context.confirmation.as_ref().filter(|answer| !answer.confirmed) {
        return Ok(CallOutcome::Response(rejection(answer)));
    }
    let context = task.context.clone();
    if task.context.cancel.is_cancelled() {
        return Err(ToolError::Interrupted);
    }
    // A separate task, so that a panic does not end the turn. Dropping the handle aborts it.
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
        ToolOutcome::Done(value) | ToolOutcome::Pending(Some(value)) => CallOutcome::Response(value),
        ToolOutcome::Pending(None) => CallOutcome::Placeholder(json!({"status": "pending"})),
        ToolOutcome::Ask(confirmation) => CallOutcome::Question(QuestionRequest::Confirmation(confirmation)),
        ToolOutcome::AskInput(request) => CallOutcome::Question(QuestionRequest::Input(request)),
    })
}

/// The result of a rejected call, with the reason if the person gave one.
fn rejection(answer: &ToolConfirmation) -> Value {
    let mut result = json!({"error": REJECTED_CALL});
    let reason = answer.payload.as_ref().and_then(|payload| payload.get(REJECTION_REASON));
    if let Some(reason) = reason.and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
        result[REJECTION_REASON] = reason.into();
    }
    result
}

/// Looks up a tool in the agent's toolsets.
async fn find_in_toolsets(
    tree: &AgentTree,
    task: &CallTask<'_>,
    call: &FunctionCall,
) -> Result<Arc<dyn Tool>, ToolError> {
    let all = task.node.all_tools(&task.context.cancel).await.ok_or(ToolError::Interrupted)?;
    let Some(tool) = all.iter().find(|tool| tool.declaration().name == call.name) else {
        // In the order of ADK.
        let transfer = (!tree.targets(task.node).is_empty()).then_some(transfer::TRANSFER);
        let tools = all.iter().map(|tool| tool.declaration().name.as_str());
        let known: Vec<&str> = transfer.into_iter().chain(tools).collect();
        return Err(ToolError::Unknown { name: call.name.clone(), known: known.join(", ") });
    };
    // A tool with an invalid schema must validate its arguments itself.
    if let Ok(schema) = jsonschema::validator_for(&tool.declaration().parameters_json_schema) {
        validate(&schema, &call.args.clone().unwrap_or_default())?;
    }
    Ok(Arc::clone(tool))
}

/// Truncates malformed arguments for the error text.
fn truncate(raw: &str) -> String {
    match raw.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &raw[..end]),
        None => raw.to_owned(),
    }
}

fn validate(schema: &jsonschema::Validator, args: &Map<String, Value>) -> Result<(), ToolError> {
    let args = Value::Object(args.clone());
    let errors: Vec<String> = schema.iter_errors(&args).take(5).map(|error| error.to_string()).collect();
    if errors.is_empty() { Ok(()) } else { Err(ToolError::Arguments(errors.join("; "))) }
}

fn push_outcome(results: &mut StepResults, task: &CallTask<'_>, outcome: Result<CallOutcome, ToolError>) {
    match outcome {
        Ok(CallOutcome::Response(value)) => results.respond(task, value),
        Ok(CallOutcome::Placeholder(value)) => {
            results.placeholders += 1;
            results.respond(task, value);
        }
        Ok(CallOutcome::Question(request)) => push_question(results, task, request),
        Err(error) => results.respond(task, json!({"error": error.to_string()})),
    }
}

fn push_question(results: &mut StepResults, task: &CallTask<'_>, request: QuestionRequest) {
    let Some(call) = task.call.part.call() else { return };
    let placeholder = match &request {
        QuestionRequest::Confirmation(confirmation) => {
            let requested = serde_json::to_value(confirmation).unwrap_or_default();
            results.actions.requested_tool_confirmations.insert(task.call.id(), requested);
            UNCONFIRMED_CALL
        }
        QuestionRequest::Input(_) => AWAITING_INPUT,
    };
    results.placeholders += 1;
    results.respond(task, json!({"error": placeholder}));
    results.questions.push((call.clone(), request));
}

fn push_transfer(results: &mut StepResults, tree: &AgentTree, events: &[Arc<Event>], task: &CallTask<'_>) {
    let args = task.call.part.call().and_then(|call| call.args.as_ref());
    let Some(name) = args.and_then(|args| args.get("agent_name")).and_then(Value::as_str) else {
        return results.respond(
            task,
            json!({"error": "the argument agent_name is missing: it is the name of an agent"}),
        );
    };
    if results.actions.transfer_to_agent.is_some() || results.fault.is_some() {
        return results.respond(task, json!({"error": "only one transfer per step is allowed"}));
    }
    match transfer::decide(tree, task.node, name, events) {
        TransferDecision::To(target) => {
            results.actions.transfer_to_agent = Some(target);
            results.respond(task, json!({"result": null}));
        }
        TransferDecision::Refused(reason) => results.respond(task, json!({"error": reason})),
        TransferDecision::UnknownAgent(name) => {
            let valid = transfer::target_names(tree, task.node);
            results.fail(task, RunError::AgentNotFound { name, valid });
        }
        TransferDecision::Loop(path) => results.fail(task, RunError::TransferLoop { path }),
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

/// The call that asks the user about another call, in ADK's format.
pub(crate) fn question_call(call: &FunctionCall, request: &QuestionRequest) -> FunctionCall {
    let id = mint_call_id();
    let args = match request {
        QuestionRequest::Confirmation(confirmation) => {
            json!({ORIGINAL_CALL: call, "toolConfirmation": confirmation})
        }
        QuestionRequest::Input(input) => {
            let mut payload = input.payload.clone();
            payload.insert(ORIGINAL_CALL.to_owned(), json!(call));
            json!({
                "interruptId": id,
                "payload": payload,
                "message": input.message,
                "response_schema": input.schema,
            })
        }
    };
    FunctionCall {
        id: Some(id),
        args: args.as_object().cloned(),
        name: request.name().to_owned(),
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
