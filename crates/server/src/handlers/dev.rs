//! What ADK's web page asks for beside the API: drawings, and lists that are empty here.

use super::{
    Json,
    agent_tools::AgentTools,
    graph::{GraphHighlight, draw},
};
use crate::{
    app_registry::ServedApp,
    error::ApiError,
    path_params::{PathParams, SessionPath},
    state::ServerState,
};
use adk::agent::{IncludeContents, Node};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// Events that are looked through at a time.
const PAGE: usize = 256;

pub(crate) async fn build_graph(
    State(server): State<ServerState>,
    params: PathParams,
) -> Result<Response, ApiError> {
    let app = server.app(params.get("app"))?;
    let tools = AgentTools::of(&app).await;
    let root = agent((&app, &tools), app.agent.tree().root(), true);
    Ok(Json(json!({"name": app.name, "root_agent": root})).into_response())
}

fn agent((app, tools): (&ServedApp, &AgentTools), node: &Node, is_root: bool) -> Value {
    let own = &node.agent;
    let children: Vec<Value> =
        app.agent.tree().children(node).map(|child| agent((app, tools), child, false)).collect();
    let tools: Vec<Value> =
        tools.all(own).iter().map(|tool| json!({"name": tool.declaration().name, "type": "tool"})).collect();
    let mut shown = json!({
        "name": own.name,
        "description": own.description,
        "rerun_on_resume": false,
        "wait_for_output": false,
        "sub_agents": children,
        "model": own.model.name().split_once('/').map_or(own.model.name(), |(_, model)| model),
        "instruction": own.instruction,
        "global_instruction": "",
        "tools": tools,
    });
    if !is_root {
        shown["mode"] = "chat".into();
    }
    shown["disallow_transfer_to_parent"] = own.disallow_transfer_to_parent.into();
    shown["disallow_transfer_to_peers"] = own.disallow_transfer_to_peers.into();
    let contents = match own.include_contents {
        IncludeContents::Default => "default",
        IncludeContents::None => "none",
    };
    shown["include_contents"] = contents.into();
    shown
}

pub(crate) async fn graph(
    State(server): State<ServerState>,
    params: PathParams,
) -> Result<Response, ApiError> {
    let app = server.app(params.get("app"))?;
    Ok(Json(json!({ "dotSrc": draw((&app, &AgentTools::of(&app).await), None) })).into_response())
}

pub(crate) async fn build_graph_image(
    State(server): State<ServerState>,
    params: PathParams,
) -> Result<Response, ApiError> {
    let app = server.app(params.get("app"))?;
    Ok(Json(json!({"": {"dotSrc": draw((&app, &AgentTools::of(&app).await), None)}})).into_response())
}

/// What an event did, drawn; nothing for an event that is not there.
pub(crate) async fn event_graph(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    params: PathParams,
) -> Result<Response, ApiError> {
    let app = server.app(&key.app_name)?;
    if server.archive.head(&key).await?.is_none() {
        return Ok(Json(Map::new()).into_response());
    }
    let mut pages = server.archive.events(&key, &app.agent.tree().root().agent.name, 0);
    loop {
        let page = pages.next(PAGE).await?;
        if page.is_empty() {
            return Ok(Json(Map::new()).into_response());
        }
        if let Some((_, event)) = page.iter().find(|(_, event)| event.id == params.get("event")) {
            return Ok(Json(
                json!({ "dotSrc": draw((&app, &AgentTools::of(&app).await), Some(&GraphHighlight::of(event))) }),
            )
            .into_response());
        }
    }
}

pub(crate) async fn none() -> Response {
    super::json("[]")
}

pub(crate) async fn no_eval_sets() -> Response {
    super::json(r#"{"evalSetIds":[]}"#)
}

pub(crate) async fn no_eval_results() -> Response {
    super::json(r#"{"evalResultIds":[]}"#)
}

pub(crate) async fn no_metrics() -> ApiError {
    ApiError::bad_request("evaluation is not part of this server")
}

pub(crate) async fn no_builder() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "").into_response()
}

pub(crate) async fn telemetry() -> Response {
    super::json(r#"{"telemetry":false}"#)
}

/// ADK's socket for audio.
pub(crate) async fn no_live() -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "audio is not part of this server; send messages to /run_sse")
}
