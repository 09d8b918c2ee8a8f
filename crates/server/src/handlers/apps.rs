//! Which apps there are, and what they are made of.

use super::{Json, agent_tools::AgentTools};
use crate::{
    app_registry::ServedApp, error::ApiError, input::QueryParams, path_params::PathParams,
    principal::Principal, state::ServerState,
};
use adk::agent::Node;
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// The version of ADK whose API this is.
const ADK: &str = "2.13.0";

pub(crate) async fn health() -> Response {
    super::json(r#"{"status":"ok"}"#)
}

pub(crate) async fn version() -> Response {
    Json(json!({"version": ADK, "language": "rust", "language_version": env!("CARGO_PKG_RUST_VERSION")}))
        .into_response()
}

/// Who the caller's token says they are; without a user they may be any.
pub(crate) async fn whoami(caller: Principal) -> Response {
    Json(json!({"user": caller.user, "admin": caller.admin})).into_response()
}

pub(crate) async fn list(
    State(server): State<ServerState>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let names = server.apps.names();
    if !query.flag("detailed")? {
        return Ok(Json(names).into_response());
    }
    let sound = names.iter().filter_map(|name| server.apps.find(name).ok());
    let apps: Vec<Value> = sound.map(|app| Value::Object(summary(&app, Value::Null))).collect();
    Ok(Json(json!({ "apps": apps })).into_response())
}

pub(crate) async fn info(
    State(server): State<ServerState>,
    params: PathParams,
) -> Result<Response, ApiError> {
    let app = server.app(params.get("app"))?;
    let mut agents = Map::new();
    let tools = AgentTools::of(&app).await;
    describe((&app, &tools), app.agent.tree().root(), &mut agents);
    Ok(Json(summary(&app, agents.into())).into_response())
}

fn summary(app: &ServedApp, agents: Value) -> Map<String, Value> {
    let root = &app.agent.tree().root().agent;
    let fields = [
        ("name", app.name.as_str().into()),
        ("rootAgentName", root.name.as_str().into()),
        ("description", root.description.as_str().into()),
        // Of the agent, which is configuration.
        ("language", "yaml".into()),
        ("isComputerUse", false.into()),
        ("agents", agents),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// An agent and all below it, those first.
fn describe((app, tools): (&ServedApp, &AgentTools), node: &Node, agents: &mut Map<String, Value>) {
    let tree = app.agent.tree();
    for child in tree.children(node) {
        describe((app, tools), child, agents);
    }
    let agent = &node.agent;
    let tools: Vec<Value> = tools.all(agent).iter().map(|tool| declaration(&**tool)).collect();
    let children: Vec<&str> = tree.children(node).map(|child| child.agent.name.as_str()).collect();
    let details = json!({
        "name": agent.name,
        "description": agent.description,
        "instruction": agent.instruction,
        "tools": tools,
        "sub_agents": children,
    });
    agents.insert(agent.name.clone(), details);
}

fn declaration(tool: &dyn adk::tool::Tool) -> Value {
    let mut declaration = json!(tool.declaration());
    if tool.is_long_running() {
        let told = format!(
            "{}\n\nIts first answer may not be the last: what is under way is not to be asked for again.",
            tool.declaration().description
        );
        declaration["description"] = told.into();
    }
    json!({ "functionDeclarations": [declaration] })
}
