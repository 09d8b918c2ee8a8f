//! Endpoints of ADK's web page besides the REST API: graphs, and lists that are always empty in this server.

use super::{
    Json,
    agent_tools::AgentTools,
    graph::{GraphHighlight, draw},
    json_response,
};
use crate::{
    app_registry::ServedApp,
    error::ApiError,
    path_params::{AppPath, EvalCasePath, EvalResultPath, EvalSetPath, EventPath, PathParams},
    principal::Principal,
    state::ServerState,
};
use adk::agent::{IncludeContents, Node};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// ADK's page shows the reason of a failed evaluation only if it contains "not installed".
pub(crate) const EVALUATION: &str =
    "evaluation is not installed in this server; evaluate agents with google-adk";

/// Events per page while searching a session for an event.
const PAGE_SIZE: usize = 256;
const PAGE_BYTES: usize = 256 * 1024;

pub(crate) async fn build_graph(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(AppPath { app }): PathParams<AppPath>,
) -> Result<Response, ApiError> {
    let app = server.app(&caller, &app)?;
    let tools = AgentTools::list(&app).await;
    let root = describe_agent((&app, &tools), app.agent.tree().root(), true);
    Ok(Json(json!({"name": app.name, "root_agent": root})).into_response())
}

fn describe_agent((app, tools): (&ServedApp, &AgentTools), node: &Node, is_root: bool) -> Value {
    let agent = &node.agent;
    let children: Vec<Value> =
        app.agent.tree().children(node).map(|child| describe_agent((app, tools), child, false)).collect();
    let tools: Vec<Value> = tools
        .of_agent(agent)
        .iter()
        .map(|tool| json!({"name": tool.declaration().name, "type": "tool"}))
        .collect();
    let mut description = json!({
        "name": agent.name,
        "description": agent.description,
        "rerun_on_resume": false,
        "wait_for_output": false,
        "sub_agents": children,
        "model": agent.model.name().split_once('/').map_or(agent.model.name(), |(_, model)| model),
        "instruction": agent.instruction,
        "global_instruction": "",
        "tools": tools,
    });
    if !is_root {
        description["mode"] = "chat".into();
    }
    description["disallow_transfer_to_parent"] = agent.disallow_transfer_to_parent.into();
    description["disallow_transfer_to_peers"] = agent.disallow_transfer_to_peers.into();
    let contents = match agent.include_contents {
        IncludeContents::Default => "default",
        IncludeContents::None => "none",
    };
    description["include_contents"] = contents.into();
    description
}

pub(crate) async fn graph(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(AppPath { app }): PathParams<AppPath>,
) -> Result<Response, ApiError> {
    let app = server.app(&caller, &app)?;
    Ok(Json(json!({ "dotSrc": draw((&app, &AgentTools::list(&app).await), None) })).into_response())
}

pub(crate) async fn build_graph_image(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(AppPath { app }): PathParams<AppPath>,
) -> Result<Response, ApiError> {
    let app = server.app(&caller, &app)?;
    Ok(Json(json!({"": {"dotSrc": draw((&app, &AgentTools::list(&app).await), None)}})).into_response())
}

/// The graph with an event highlighted. An unknown event answers `{}`, as in ADK.
pub(crate) async fn event_graph(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<EventPath>,
) -> Result<Response, ApiError> {
    let (key, id) = (path.session.key(), path.event);
    let app = server.app(&caller, &key.app_name)?;
    if server.archive.head(&key).await?.is_none() {
        return Ok(Json(Map::new()).into_response());
    }
    let mut pages = server.archive.events(&key, &app.agent.tree().root().agent.name, 0);
    loop {
        let page = pages.next(PAGE_SIZE, PAGE_BYTES).await?;
        if page.is_empty() {
            return Ok(Json(Map::new()).into_response());
        }
        if let Some((_, event)) = page.iter().find(|(_, event)| event.id == id) {
            let tools = AgentTools::list(&app).await;
            let graph = draw((&app, &tools), Some(&GraphHighlight::new(event)));
            return Ok(Json(json!({ "dotSrc": graph })).into_response());
        }
    }
}

pub(crate) async fn empty_list() -> Response {
    json_response("[]")
}

pub(crate) async fn no_eval_sets() -> Response {
    json_response(r#"{"evalSetIds":[]}"#)
}

pub(crate) async fn no_eval_results() -> Response {
    json_response(r#"{"evalResultIds":[]}"#)
}

pub(crate) async fn no_eval_set(PathParams(EvalSetPath { set }): PathParams<EvalSetPath>) -> ApiError {
    ApiError::bad_request(format!("Eval set `{set}` not found."))
}

pub(crate) async fn no_eval_case(
    PathParams(EvalCasePath { set, case }): PathParams<EvalCasePath>,
) -> ApiError {
    ApiError::not_found(format!("Eval set `{set}` or Eval `{case}` not found."))
}

pub(crate) async fn no_eval_result(
    PathParams(EvalResultPath { result }): PathParams<EvalResultPath>,
) -> ApiError {
    ApiError::not_found(format!("Eval set result `{result}` not found."))
}

pub(crate) async fn no_test() -> ApiError {
    ApiError::not_found("Test file not found")
}

/// ADK's status if its evaluation module is not installed.
pub(crate) async fn no_metrics() -> ApiError {
    ApiError::bad_request(EVALUATION)
}

pub(crate) async fn no_builder() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "").into_response()
}

/// The consent to ADK's usage reports, which this server never sends.
pub(crate) async fn telemetry() -> Response {
    json_response(r#"{"telemetry":false}"#)
}

/// The response to an operation of ADK that this server does not have.
pub(crate) fn unsupported(reason: &'static str) -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, reason)
}
