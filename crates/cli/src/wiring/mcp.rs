//! MCP servers: which of them may start, and their tools as agents have them.

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
    mcp::{ListedTool, McpServerConfig, McpServers, McpTransport, ServerEnv, ToolPins},
    policy::Decision,
};

/// The servers of this configuration, the same for all apps. None is started before its tools are asked for.
pub(super) fn servers(
    settings: &Settings,
    registry: &ToolRegistry,
    outputs: &OutputStore,
    tells: bool,
) -> Arc<McpServers> {
    let make = || {
        let said = &settings.tools;
        let pins = Arc::new(pins(settings));
        let taken = registry.iter().map(|tool| tool.spec().name.clone()).collect();
        let env = ServerEnv {
            env: said.environment.clone(),
            grace: said.limits.grace,
            max_time: said.limits.max_time,
            outputs: outputs.clone(),
            mask: said.mask.clone(),
            pins: Arc::clone(&pins),
            on_problem: Arc::new(move |problem| {
                if tells {
                    screen::note(problem);
                }
            }),
        };
        Arc::new(McpServers::new(allowed(&settings.mcp, &pins), taken, &env))
    };
    Arc::clone(settings.mcp.running.get_or_init(make))
}

/// What people have seen of servers and of project files.
pub(crate) fn pins(settings: &Settings) -> ToolPins {
    ToolPins::new(&settings.home.join("mcp.jsonl"))
}

/// A file that came with a project starts nothing before a person has agreed to what it says.
fn allowed(mcp: &McpSettings, pins: &ToolPins) -> Vec<McpServerConfig> {
    let mut all = mcp.servers.clone();
    let Some(project) = &mcp.project else { return all };
    let agreed = project.said == Decision::Allow || pins.is_approved(&project.file, &project.hash);
    let waiting = |server: &McpServerConfig| {
        let why = "it comes with this directory and starts when you agree: look at .mcp.json, then run `lango tools --approve`";
        let is_sound = !matches!(server.transport, McpTransport::Unavailable(_));
        let transport =
            if is_sound { McpTransport::Unavailable(why.to_owned()) } else { server.transport.clone() };
        McpServerConfig { transport, ..server.clone() }
    };
    let of_project = project.servers.iter();
    all.extend(of_project.map(|server| if agreed { server.clone() } else { waiting(server) }));
    all
}

/// Tools of servers, as an agent has them.
pub(super) struct ServerTools {
    pub(super) servers: Arc<McpServers>,
    pub(super) guard: Arc<Guard>,
    /// `None` for all of them; `name__*` for all of a server.
    pub(super) wanted: Option<Vec<String>>,
}

/// Whether one of `patterns` means the tool.
pub(crate) fn is_meant(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => prefix.ends_with("__") && tool.starts_with(prefix),
        None => pattern == tool,
    })
}

impl ServerTools {
    fn armed(&self, listed: Vec<ListedTool>) -> Vec<Arc<dyn Tool>> {
        let is_wanted = |name: &str| self.wanted.as_ref().is_none_or(|wanted| is_meant(wanted, name));
        let arm = |tool: Arc<dyn tools::Tool>| -> Arc<dyn Tool> {
            Arc::new(ToolAdapter::new(tool).guarded(Arc::clone(&self.guard)))
        };
        let tools = listed.into_iter().map(|listed| listed.tool);
        tools.filter(|tool| is_wanted(&tool.spec().name)).map(arm).collect()
    }
}

impl Toolset for ServerTools {
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>> {
        Box::pin(async move { self.armed(self.servers.tools().await) })
    }

    fn known(&self) -> Vec<Arc<dyn Tool>> {
        self.armed(self.servers.known())
    }
}
