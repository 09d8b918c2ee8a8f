//! The tools that agents may have, and what stands between them and a model's calls.

use super::mcp;
use crate::config::{RootSettings, Settings};
use adk::tool::{Tool, Toolset};
use bridge::{Guard, ToolAdapter};
use std::{path::PathBuf, sync::Arc};
use tools::{
    OutputStore, RuleBook, ToolRegistry,
    command::{CommandEnv, CommandTool},
    exec::{Confinement, ExecToolContext, LazySandbox, Sandbox, Watchdog, sandbox::SandboxConfig},
    fetch::AllowedAddrs,
    files::{FileRoot, FileRoots},
    mcp::McpServers,
    stub::StubTool,
};

/// All tools of this configuration.
pub(crate) struct Toolbox {
    pub(crate) registry: ToolRegistry,
    /// Tools that servers have.
    pub(crate) servers: Arc<McpServers>,
    guard: Arc<Guard>,
}

impl Toolbox {
    /// Nothing is made on the disk and no process is started before a tool needs it.
    pub(crate) fn open(settings: &Settings, attended: bool) -> anyhow::Result<Self> {
        Self::telling(settings, attended, true)
    }

    /// For whoever tells what is wrong with servers in another way.
    pub(crate) fn quiet(settings: &Settings) -> anyhow::Result<Self> {
        Self::telling(settings, false, false)
    }

    fn telling(settings: &Settings, attended: bool, tells: bool) -> anyhow::Result<Self> {
        let said = &settings.tools;
        let roots = roots(settings)?;
        let outputs = OutputStore::new(&settings.home.join("kept"))
            .with_max_bytes(said.keep_bytes)
            .with_mask(said.mask.clone());
        let guard = Guard::new(said.policy.clone(), rule_book(settings), roots.paths(), said.mask.clone());
        let guard = guard.users_decide(said.users_decide);
        let guard = if attended { guard } else { guard.unattended() };
        let watchdog = Watchdog::new(ourselves());
        let context = ExecToolContext {
            roots,
            outputs: outputs.clone(),
            env: said.environment.clone(),
            sandbox: LazySandbox::new(wanted(settings)),
            watchdog: watchdog.clone(),
            limits: said.limits,
        };
        let mut registry = tools::all_built_in(context, AllowedAddrs::new(said.fetch_local.clone()))?;
        for stub in &settings.stubs {
            registry.add("stubs in lango.toml", Arc::new(StubTool::from(stub.clone())))?;
        }
        let (environment, grace) = (said.environment.clone(), said.limits.grace);
        for command in &settings.commands {
            let watchdog = watchdog.clone();
            let env = CommandEnv { env: environment.clone(), outputs: outputs.clone(), grace, watchdog };
            let command = Arc::new(CommandTool::new(command.clone(), env));
            registry.add("commands in lango.toml", command)?;
        }
        let servers = mcp::servers(settings, &registry, &outputs, tells);
        Ok(Self { registry, servers, guard: Arc::new(guard) })
    }

    /// A tool as agents have it.
    pub(crate) fn arm(&self, tool: &Arc<dyn tools::Tool>) -> Arc<dyn Tool> {
        Arc::new(ToolAdapter::new(Arc::clone(tool)).guarded(Arc::clone(&self.guard)))
    }

    /// The tools of servers that an agent may have: all, or those of these names.
    pub(crate) fn arm_servers(&self, wanted: Option<Vec<String>>) -> Vec<Arc<dyn Toolset>> {
        if self.servers.is_empty() || wanted.as_ref().is_some_and(Vec::is_empty) {
            return Vec::new();
        }
        let guard = Arc::clone(&self.guard);
        vec![Arc::new(mcp::ServerTools { servers: Arc::clone(&self.servers), guard, wanted })]
    }

    pub(crate) fn names(&self) -> String {
        self.registry.iter().map(|tool| tool.spec().name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The directories that tools see.
pub(crate) fn roots(settings: &Settings) -> Result<FileRoots, tools::ToolsError> {
    let open = |said: &RootSettings| {
        let root = FileRoot::new(&said.path)?;
        Ok(if said.write { root } else { root.read_only() })
    };
    let (first, others) = (&settings.tools.root, &settings.tools.others);
    FileRoots::new(open(first)?, others.iter().map(open).collect::<Result<_, _>>()?)
}

/// What people have allowed for good.
pub(crate) fn rule_book(settings: &Settings) -> RuleBook {
    RuleBook::new(&settings.home.join("rules.jsonl"))
}

/// What keeps commands from the rest of this machine. It starts processes to find out.
pub(crate) fn confinement(settings: &Settings) -> Confinement {
    Sandbox::build(wanted(settings)).confinement().clone()
}

fn wanted(settings: &Settings) -> SandboxConfig {
    let said = &settings.tools;
    let roots = said.others.iter().chain([&said.root]).filter(|root| root.write).map(|root| &root.path);
    let writable = roots.chain([&said.environment.tmp]).chain(&said.writable).cloned().collect();
    SandboxConfig {
        helper: ourselves(),
        writable,
        network: said.network,
        path: said.environment.path.clone(),
    }
}

/// This very program, also after another was put in its place.
fn ourselves() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/{}/exe", std::process::id()))
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}
