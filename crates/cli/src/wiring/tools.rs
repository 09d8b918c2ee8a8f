//! The tools of agents, and the guard that decides whether their calls run.

use super::mcp;
use crate::config::{RootSettings, Settings};
use adk::tool::{Tool, Toolset};
use anyhow::anyhow;
use bridge::{Guard, ModeSwitch, ToolAdapter};
use std::{path::PathBuf, sync::Arc};
use tools::{
    OutputStore, RuleBook, ToolRegistry,
    command::{CommandEnv, CommandTool},
    exec::{Confinement, ExecToolContext, LazySandbox, Sandbox, Watchdog, sandbox::SandboxConfig},
    fetch::AllowedAddrs,
    files::{FileRoot, FileRoots},
    mcp::McpServers,
    policy::{CommandSandbox, LazyCommandSandbox, ProtectedPaths, SandboxCapability, SearchPath},
    stub::StubTool,
};

/// All tools of the configuration.
pub(crate) struct Toolbox {
    pub(crate) registry: ToolRegistry,
    /// The MCP servers and their tools.
    pub(crate) servers: Arc<McpServers>,
    pub(crate) sandbox: LazyCommandSandbox,
    guard: Arc<Guard>,
}

impl Toolbox {
    /// Creates no files and starts no processes; tools do that on first use. Only the modes `edits` and `auto` probe the sandbox
    /// now: they fail if it is incomplete.
    pub(crate) fn open(settings: &Settings, attended: bool, mode: ModeSwitch) -> anyhow::Result<Self> {
        let wanted = mode.get();
        let toolbox = Self::build(settings, (attended, mode), true)?;
        if wanted.is_permissive() {
            toolbox.sandbox.get().capability.check_mode(wanted).map_err(|why| anyhow!(why))?;
        }
        Ok(toolbox)
    }

    /// Like [`open`](Self::open), without printing problems of MCP servers.
    pub(crate) fn quiet(settings: &Settings) -> anyhow::Result<Self> {
        Self::build(settings, (false, ModeSwitch::default()), false)
    }

    fn build(
        settings: &Settings,
        (attended, mode): (bool, ModeSwitch),
        report_problems: bool,
    ) -> anyhow::Result<Self> {
        let config = &settings.tools;
        let roots = roots(settings)?;
        let outputs = OutputStore::new(&settings.home.join("kept"))
            .with_max_bytes(config.keep_bytes)
            .with_mask(config.mask.clone());
        let command_sandbox = LazySandbox::new(sandbox_config(settings));
        let sandbox = policy_sandbox(settings, command_sandbox.clone());
        let guard =
            Guard::new(config.policy.clone(), rule_book(settings), roots.paths(), config.mask.clone())
                .with_mode(mode)
                .with_sandbox(
                    sandbox.clone(),
                    protected(settings),
                    SearchPath::new(&config.environment.path),
                );
        let guard = guard.users_decide(config.users_decide);
        let guard = if attended { guard } else { guard.unattended() };
        let watchdog = Watchdog::new(own_executable());
        let context = ExecToolContext {
            roots,
            outputs: outputs.clone(),
            env: config.environment.clone(),
            sandbox: command_sandbox,
            watchdog: watchdog.clone(),
            limits: config.limits,
        };
        let mut registry = tools::all_built_in(context, AllowedAddrs::new(config.fetch_local.clone()))?;
        for stub in &settings.stubs {
            registry.add("stubs in lango.toml", Arc::new(StubTool::from(stub.clone())))?;
        }
        let (environment, grace) = (config.environment.clone(), config.limits.grace);
        for command in &settings.commands {
            let watchdog = watchdog.clone();
            let env = CommandEnv { env: environment.clone(), outputs: outputs.clone(), grace, watchdog };
            let command = Arc::new(CommandTool::new(command.clone(), env));
            registry.add("commands in lango.toml", command)?;
        }
        let servers = mcp::servers(settings, &registry, &outputs, report_problems);
        Ok(Self { registry, servers, sandbox, guard: Arc::new(guard) })
    }

    /// The tool behind the guard, as an ADK tool.
    pub(crate) fn guarded(&self, tool: &Arc<dyn tools::Tool>) -> Arc<dyn Tool> {
        Arc::new(ToolAdapter::new(Arc::clone(tool)).guarded(Arc::clone(&self.guard)))
    }

    /// The toolsets of MCP servers: all tools, or those that match `wanted`.
    pub(crate) fn server_toolsets(&self, wanted: Option<Vec<String>>) -> Vec<Arc<dyn Toolset>> {
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

/// The directories that tools can access.
pub(crate) fn roots(settings: &Settings) -> Result<FileRoots, tools::ToolsError> {
    let open = |config: &RootSettings| {
        let root = FileRoot::new(&config.path)?;
        Ok(if config.write { root } else { root.read_only() })
    };
    let (first, others) = (&settings.tools.root, &settings.tools.others);
    FileRoots::new(open(first)?, others.iter().map(open).collect::<Result<_, _>>()?)
}

/// The sandbox of commands as the policy sees it.
fn policy_sandbox(settings: &Settings, sandbox: LazySandbox) -> LazyCommandSandbox {
    let resolved = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let writable = sandbox_config(settings).writable.into_iter().map(resolved).collect();
    let (network, home) = (settings.tools.network, PathBuf::from(&settings.tools.environment.home));
    LazyCommandSandbox::new(move || {
        let capability = SandboxCapability::from(sandbox.get().confinement());
        CommandSandbox { capability, network, writable, home }
    })
}

/// The paths that ask by name, beyond those with a fixed name. Temporary files are in the data directory.
fn protected(settings: &Settings) -> ProtectedPaths {
    let paths = [settings.home.clone(), settings.agents_dir.clone()].into_iter().chain(settings.file.clone());
    ProtectedPaths::new(paths).except(settings.tools.environment.tmp.clone())
}

/// The stored approval rules.
pub(crate) fn rule_book(settings: &Settings) -> RuleBook {
    RuleBook::new(&settings.home.join("rules.jsonl"))
}

/// The confinement of commands on this machine. Starts processes to detect it.
pub(crate) fn confinement(settings: &Settings) -> Confinement {
    Sandbox::build(sandbox_config(settings)).confinement().clone()
}

fn sandbox_config(settings: &Settings) -> SandboxConfig {
    let config = &settings.tools;
    let roots = config.others.iter().chain([&config.root]).filter(|root| root.write).map(|root| &root.path);
    let writable = roots.chain([&config.environment.tmp]).chain(&config.writable).cloned().collect();
    SandboxConfig {
        helper: own_executable(),
        writable,
        network: config.network,
        path: config.environment.path.clone(),
    }
}

/// The path of this executable, valid even after the file was replaced.
fn own_executable() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/{}/exe", std::process::id()))
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}
