//! MCP servers: which of them may start, and their tools as ADK toolsets.

use crate::{config::Settings, screen};
use adk::tool::{Tool, Toolset};
use bridge::{Guard, ToolAdapter};
use futures::future::BoxFuture;
use std::sync::Arc;
use tools::{
    OutputStore, ToolRegistry,
    exec::LazySandbox,
    mcp::{ListedTool, McpServers, ServerEnv, ToolPins},
};

/// The servers of the configuration, shared by all apps. A server starts when its tools are first listed.
pub(super) fn servers(
    settings: &Settings,
    registry: &ToolRegistry,
    (outputs, sandbox): (&OutputStore, &LazySandbox),
    (can_ask, report_problems): (bool, bool),
) -> Arc<McpServers> {
    let make = || {
        let config = &settings.tools;
        let pins = Arc::new(ToolPins::new(&settings.home.join("mcp.jsonl")));
        let configured = settings.mcp.all().cloned().collect();
        let taken = registry.iter().map(|tool| tool.spec().name.clone()).collect();
        let env = ServerEnv {
            env: config.environment.clone(),
            sandbox: sandbox.clone(),
            grace: config.limits.grace,
            max_time: config.limits.max_time,
            outputs: outputs.clone(),
            mask: config.mask.clone(),
            pins: Arc::clone(&pins),
            parked: settings.mcp.parked.clone(),
            can_ask,
            on_problem: Arc::new(move |problem| {
                if report_problems {
                    screen::note(problem);
                }
            }),
        };
        Arc::new(McpServers::new(configured, taken, &env))
    };
    Arc::clone(settings.mcp.running.get_or_init(make))
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
