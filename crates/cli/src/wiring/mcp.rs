//! MCP servers: which of them may start, and their tools as ADK toolsets.

use crate::{
    config::{McpSettings, Settings},
    screen,
};
use adk::tool::{Tool, Toolset};
use bridge::{Guard, ToolAdapter};
use futures::future::BoxFuture;
use std::sync::Arc;
use tools::{
    OutputStore, ToolRegistry,
    exec::LazySandbox,
    mcp::{ListedTool, McpServerConfig, McpServers, McpTransport, ServerEnv, ToolPins},
    policy::Decision,
};

/// The servers of the configuration, shared by all apps. A server starts when its tools are first listed.
pub(super) fn servers(
    settings: &Settings,
    registry: &ToolRegistry,
    (outputs, sandbox): (&OutputStore, &LazySandbox),
    report_problems: bool,
) -> Arc<McpServers> {
    let make = || {
        let config = &settings.tools;
        let pins = Arc::new(pins(settings));
        let taken = registry.iter().map(|tool| tool.spec().name.clone()).collect();
        let env = ServerEnv {
            env: config.environment.clone(),
            sandbox: sandbox.clone(),
            grace: config.limits.grace,
            max_time: config.limits.max_time,
            outputs: outputs.clone(),
            mask: config.mask.clone(),
            pins: Arc::clone(&pins),
            on_problem: Arc::new(move |problem| {
                if report_problems {
                    screen::note(problem);
                }
            }),
        };
        Arc::new(McpServers::new(allowed(&settings.mcp, &pins), taken, &env))
    };
    Arc::clone(settings.mcp.running.get_or_init(make))
}

/// The approved tool descriptions and project files.
pub(crate) fn pins(settings: &Settings) -> ToolPins {
    ToolPins::new(&settings.home.join("mcp.jsonl"))
}

/// The servers that may start. Those of an unapproved project file are unavailable.
fn allowed(mcp: &McpSettings, pins: &ToolPins) -> Vec<McpServerConfig> {
    let mut all = mcp.servers.clone();
    let Some(project) = &mcp.project else { return all };
    let is_approved = project.decision == Decision::Allow || pins.is_approved(&project.file, &project.hash);
    let unapproved = |server: &McpServerConfig| {
        let why = "it is defined in this directory and needs your approval: read .mcp.json, then run `lango tools --approve`";
        let is_available = !matches!(server.transport, McpTransport::Unavailable(_));
        let transport =
            if is_available { McpTransport::Unavailable(why.to_owned()) } else { server.transport.clone() };
        McpServerConfig { transport, ..server.clone() }
    };
    let of_project = project.servers.iter();
    all.extend(of_project.map(|server| if is_approved { server.clone() } else { unapproved(server) }));
    all
}

/// The tools of MCP servers that an agent may use.
pub(super) struct ServerTools {
    pub(super) servers: Arc<McpServers>,
    pub(super) guard: Arc<Guard>,
    /// Tool names, or `<server>__*` for all tools of a server; `None` for all tools.
    pub(super) wanted: Option<Vec<String>>,
}

/// Whether one of `patterns` matches the tool.
pub(crate) fn matches_any(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => prefix.ends_with("__") && tool.starts_with(prefix),
        None => pattern == tool,
    })
}

impl ServerTools {
    fn guarded(&self, listed: Vec<ListedTool>) -> Vec<Arc<dyn Tool>> {
        let is_wanted = |name: &str| self.wanted.as_ref().is_none_or(|wanted| matches_any(wanted, name));
        let guard = |tool: Arc<dyn tools::Tool>| -> Arc<dyn Tool> {
            Arc::new(ToolAdapter::new(tool).guarded(Arc::clone(&self.guard)))
        };
        let tools = listed.into_iter().map(|listed| listed.tool);
        tools.filter(|tool| is_wanted(&tool.spec().name)).map(guard).collect()
    }
}

impl Toolset for ServerTools {
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>> {
        Box::pin(async move { self.guarded(self.servers.tools().await) })
    }

    fn known(&self) -> Vec<Arc<dyn Tool>> {
        self.guarded(self.servers.known())
    }
}
