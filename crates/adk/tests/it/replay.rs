//! Conformance with ADK's runner: the recorded model answers produce the recorded events.

use crate::common::{App, Fake, Reply, app, key, tool};
use adk::{
    agent::LlmAgent,
    content::{Blob, Content, Data, FunctionCall, Part},
    error::{LlmError, ToolError},
    event::{Event, ToolConfirmation},
    model::LlmResponse,
    pending::REQUEST_CONFIRMATION,
    runner::{RunRequest, StreamingMode},
    tool::{ToolContext, ToolOutcome},
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

const EVENTS: &str = include_str!("../../../../fixtures/adk/events.jsonl");

/// The events of agents in each recorded invocation.
fn invocations() -> Vec<Vec<Event>> {
    let mut order: Vec<String> = Vec::new();
    let mut by_id: HashMap<String, Vec<Event>> = HashMap::new();
    for line in EVENTS.lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        if !event.is_from_user() {
            order.extend((!by_id.contains_key(&event.invocation_id)).then(|| event.invocation_id.clone()));
            by_id.entry(event.invocation_id.clone()).or_default().push(event);
        }
    }
    order.iter().map(|id| by_id.remove(id).unwrap()).collect()
}

fn is_made_by_a_model(event: &Event) -> bool {
    let answers = event.responses().next().is_some();
    let asks = event.calls().any(|call| call.name == REQUEST_CONFIRMATION);
    !answers && !asks
}

/// The model calls of an invocation: chunks and the complete answer share an id. Call ids were assigned by the runner.
fn replies(events: &[Event]) -> Vec<Reply> {
    let made: Vec<&Event> = events.iter().filter(|event| is_made_by_a_model(event)).collect();
    made.chunk_by(|one, next| one.id == next.id)
        .map(|events| Reply::Items(events.iter().map(|event| item(event)).collect()))
        .collect()
}

fn item(event: &Event) -> Result<LlmResponse, LlmError> {
    if let Some(code) = &event.error_code {
        return Err(LlmError::new(code, event.error_message.clone().unwrap()));
    }
    let mut content = event.content.clone();
    for part in content.iter_mut().flat_map(|content| &mut content.parts) {
        if let Data::FunctionCall(call) = &mut part.data {
            call.id = None;
        }
    }
    Ok(LlmResponse {
        content,
        partial: event.is_partial(),
        finish_reason: event.finish_reason.clone(),
        usage_metadata: event.usage_metadata.clone(),
        model_version: event.model_version.clone(),
        ..LlmResponse::default()
    })
}

async fn canned_tool(
    context: ToolContext,
    args: Map<String, Value>,
    name: &str,
) -> Result<ToolOutcome, ToolError> {
    Ok(ToolOutcome::Done(match name {
        "get_weather" => json!({"status": "ok", "city": args["city"], "report": "sunny, 21C"}),
        "set_state" => {
            for scope in ["plain_key", "user:u_key", "app:a_key", "temp:t_key"] {
                context.set_state(scope, args["value"].clone());
            }
            json!({"status": "set"})
        }
        "make_artifact" => {
            let saved = context.save_artifact(args["name"].as_str().unwrap(), Blob::default().into());
            json!({"version": saved.await.unwrap()})
        }
        "danger" if context.confirmation.is_none() => {
            let hint = "Please approve or reject the tool call danger() by responding with a FunctionResponse with an expected ToolConfirmation payload.";
            let question = ToolConfirmation { hint: hint.to_owned(), ..ToolConfirmation::default() };
            return Ok(ToolOutcome::Ask(question));
        }
        "danger" => json!({"done": args["what"]}),
        _ => json!({"status": "pending", "job": args["job"]}),
    }))
}

/// The recorded agent, with a model that repeats the recorded answers.
fn canned(model: &Fake) -> LlmAgent {
    let mut root = model.agent("canned_root");
    let named = |name: &'static str| tool(name, move |context, args| canned_tool(context, args, name));
    let quick = ["get_weather", "set_state", "make_artifact", "danger"].map(|name| named(name).arc());
    root.tools = quick.into_iter().chain([named("slow_job").long_running().arc()]).collect();
    root.sub_agents = vec![model.agent("helper")];
    root
}

async fn replay(recorded: &[Event]) -> (App, Vec<Event>) {
    let app = app(canned(&Fake::says(replies(recorded)))).await;
    let mut request = RunRequest::message(key(), Content::user("as recorded"));
    let streams = recorded.iter().any(|event| event.partial.is_some());
    request.config.streaming = if streams { StreamingMode::Sse } else { StreamingMode::None };
    request.config.custom_metadata.clone_from(&recorded[0].custom_metadata);
    let mut shown = app.run(request).await.shown;
    if shown.len() < recorded.len() {
        let answer: Part = app.confirm(0, json!({"confirmed": true}));
        shown.extend(app.send(vec![answer]).await.shown);
    }
    (app, shown)
}

/// Events without timestamps, their ids numbered in order of appearance.
fn normal(events: &[Event]) -> Vec<Value> {
    let mut ids: Vec<String> = Vec::new();
    let values = events.iter().map(|event| {
        let mut value = json!(event);
        value["timestamp"] = json!(0);
        let calls = event.calls().filter_map(|call: &FunctionCall| call.id.clone());
        ids.extend(calls.chain([event.id.clone(), event.invocation_id.clone()]));
        value.to_string()
    });
    let mut text = values.collect::<Vec<_>>().join("\n");
    for (at, id) in ids.iter().enumerate() {
        text = text.replace(id.as_str(), &format!("id-{at}"));
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The server splits an event with a file in two, and clients may append events.
fn is_not_from_the_runner(event: &Event) -> bool {
    let split = event.content.is_none() && event.error_code.is_none();
    split || event.node_info.path.is_empty()
}

#[tokio::test]
async fn recorded_model_answers_produce_the_recorded_events() {
    let mut replayed = 0;
    for recorded in invocations() {
        if recorded.iter().any(is_not_from_the_runner) {
            continue;
        }
        let (_, shown) = replay(&recorded).await;
        assert_eq!(normal(&shown), normal(&recorded), "{}", crate::common::events_shape(&recorded));
        replayed += 1;
    }
    assert!(replayed >= 15, "only {replayed} invocations");
}
