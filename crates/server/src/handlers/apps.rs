//! The server's identity, and the apps that it serves.

use super::{Json, agent_tools::AgentTools, json_response};
use crate::{
    app_registry::ServedApp,
    error::ApiError,
    input::QueryParams,
    path_params::{AppPath, PathParams},
    principal::Principal,
    state::ServerState,
};
use adk::agent::Node;
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// The version of ADK whose API the server implements.
const ADK_VERSION: &str = "2.13.0";

pub(crate) async fn health() -> Response {
    json_response(r#"{"status":"ok"}"#)
}

pub(crate) async fn version() -> Response {
    Json(json!({"version": ADK_VERSION, "language": "rust", "language_version": env!("CARGO_PKG_RUST_VERSION")}))
        .into_response()
}

/// The principal of the request. `user` is null for an administrator of all users.
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
    let usable = names.iter().filter_map(|name| server.apps.find(name).ok());
    let apps: Vec<Value> = usable.map(|app| Value::Object(summarize(&app, Value::Null))).collect();
    Ok(Json(json!({ "apps": apps })).into_response())
}

pub(crate) async fn info(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(AppPath { app }): PathParams<AppPath>,
) -> Result<Response, ApiError> {
    let app = server.app(&caller, &app)?;
    let mut agents = Map::new();
    let tools = AgentTools::list(&app).await;
    describe_agents((&app, &tools), app.agent.tree().root(), &mut agents);
    Ok(Json(summarize(&app, agents.into())).into_response())
}

fn summarize(app: &ServedApp, agents: Value) -> Map<String, Value> {
    let root = &app.agent.tree().root().agent;
    let fields = [
        ("name", app.name.as_str().into()),
        ("rootAgentName", root.name.as_str().into()),
        ("description", root.description.as_str().into()),
        // The language of the agent, which is a YAML configuration.
        ("language", "yaml".into()),
        ("isComputerUse", false.into()),
        ("agents", agents),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Adds an agent and its descendants in post-order, as ADK lists them.
fn describe_agents((app, tools): (&ServedApp, &AgentTools), node: &Node, agents: &mut Map<String, Value>) {
    let tree = app.agent.tree();
    for child in tree.children(node) {
        describe_agents((app, tools), child, agents);
    }
    let agent = &node.agent;
    let tools: Vec<Value> = tools.of_agent(agent).iter().map(|tool| describe_tool(&**tool)).collect();
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

fn describe_tool(tool: &dyn adk::tool::Tool) -> Value {
    let mut declaration = json!(tool.declaration());
    if tool.is_long_running() {
        let description = format!(
            "{}\n\nThis is a long-running operation: its first result may be provisional. Do not call it again while a call \
             is pending.",
            tool.declaration().description
        );
        declaration["description"] = description.into();
    }
    json!({ "functionDeclarations": [declaration] })
}
