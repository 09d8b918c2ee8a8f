//! The tools of agents, and the guard that decides whether their calls run.

use super::mcp;
use crate::config::{RootSettings, Settings};
use adk::tool::{Tool, Toolset};
use anyhow::anyhow;
use bridge::{Guard, ModeSwitch, ToolAdapter};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tools::{
    OutputStore, RuleBook, ToolRegistry,
    command::{CommandEnv, CommandTool},
    exec::{
        ExecToolContext, LazySandbox, Sandbox, Watchdog,
        sandbox::{
            RootAccess, SandboxConfig, SandboxSettings,
            deny::{DEFAULT_DENY_READ, DenyList},
        },
    },
    fetch::AllowedAddrs,
    files::{FileRoot, FileRoots},
    mcp::McpServers,
    policy::{CommandSandbox, LazyCommandSandbox, ProtectedPaths, SandboxCapability, SearchPath},
    stub::StubTool,
};

/// Directories that each command has for itself.
const PRIVATE_DIRS: [&str; 2] = ["/tmp", "/dev/shm"];

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
        let sandbox = LazySandbox::new(sandbox_config(settings));
        let policy_sandbox = policy_sandbox(settings, sandbox.clone());
        // Commands of the `read-only` profile do not find programs of the project.
        let search_path = SearchPath::new(&config.environment.path).without_project_entries();
        let guard =
            Guard::new(config.policy.clone(), rule_book(settings), roots.paths(), config.mask.clone())
                .with_mode(mode)
                .with_sandbox(policy_sandbox.clone(), protected(settings), search_path);
        let guard = guard.users_decide(config.users_decide);
        let guard = if attended { guard } else { guard.unattended() };
        let watchdog = Watchdog::new(own_executable());
        let context = ExecToolContext {
            roots,
            outputs: if config.network { outputs.clone().untrusted() } else { outputs.clone() },
            env: config.environment.clone(),
            sandbox: sandbox.clone(),
            watchdog: watchdog.clone(),
            limits: config.limits,
        };
        let mut registry = tools::all_built_in(context, AllowedAddrs::new(config.fetch_local.clone()))?;
        for stub in &settings.stubs {
            registry.add("stubs in lango.toml", Arc::new(StubTool::from(stub.clone())))?;
        }
        let (environment, grace) = (config.environment.clone(), config.limits.grace);
        for command in &settings.commands {
            let env = CommandEnv {
                env: environment.clone(),
                outputs: outputs.clone(),
                grace,
                watchdog: watchdog.clone(),
                sandbox: sandbox.clone(),
            };
            let command = Arc::new(CommandTool::new(command.clone(), env));
            registry.add("commands in lango.toml", command)?;
        }
        let servers = mcp::servers(settings, &registry, (&outputs, &sandbox), report_problems);
        Ok(Self { registry, servers, sandbox: policy_sandbox, guard: Arc::new(guard) })
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
    let deny = Arc::new(deny_list(settings));
    let open = |config: &RootSettings| {
        let root = FileRoot::new(&config.path)?.without(Arc::clone(&deny));
        Ok(if config.write { root } else { root.read_only() })
    };
    let (first, others) = (&settings.tools.root, &settings.tools.others);
    FileRoots::new(open(first)?, others.iter().map(open).collect::<Result<_, _>>()?)
}

/// The sandbox of commands as the policy sees it.
fn policy_sandbox(settings: &Settings, sandbox: LazySandbox) -> LazyCommandSandbox {
    let SandboxSettings { roots, writable, network, home, .. } = sandbox_config(settings).settings;
    let roots = roots.into_iter().filter(|root| root.write).map(|root| root.path);
    let writable = roots.chain(writable).chain(PRIVATE_DIRS.map(PathBuf::from)).collect();
    LazyCommandSandbox::new(move || {
        let capability = SandboxCapability::from(sandbox.get());
        CommandSandbox { capability, network, writable, home }
    })
}

/// The paths that ask by name, beyond those with a fixed name. Temporary files are in the data directory.
fn protected(settings: &Settings) -> ProtectedPaths {
    let agents = settings.agents_dir.location().map(Path::to_owned);
    let paths = [settings.home.clone()].into_iter().chain(agents).chain(settings.file.clone());
    ProtectedPaths::new(paths).except(settings.tools.environment.tmp.clone())
}

/// The stored approval rules.
pub(crate) fn rule_book(settings: &Settings) -> RuleBook {
    RuleBook::new(&settings.home.join("rules.jsonl"))
}

/// The sandbox of commands on this machine. Starts processes to detect it.
pub(crate) fn sandbox(settings: &Settings) -> Sandbox {
    Sandbox::build(sandbox_config(settings))
}

fn sandbox_config(settings: &Settings) -> SandboxConfig {
    let config = &settings.tools;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let roots = [&config.root].into_iter().chain(&config.others);
    let home = PathBuf::from(&config.environment.home);
    SandboxConfig {
        helper: own_executable(),
        settings: SandboxSettings {
            roots: roots.map(|root| RootAccess { path: real(&root.path), write: root.write }).collect(),
            writable: config.writable.iter().map(|path| real(path)).collect(),
            readable: config.readable.iter().map(|path| real(path)).collect(),
            path: config.environment.path.clone(),
            data_dir: real(&settings.home),
            agents_dir: settings.agents_dir.location().map(real),
            deny: deny_list(settings),
            denied: Vec::new(),
            home: real(&home),
            network: config.network,
            unix_sockets: config.unix_sockets,
            limits: config.sandbox_limits,
        },
    }
}

/// The files that tools and commands must not read, the data directory among them.
fn deny_list(settings: &Settings) -> DenyList {
    let config = &settings.tools;
    let patterns = DEFAULT_DENY_READ.iter().copied().chain(config.deny_read.iter().map(String::as_str));
    let data_dir = settings.home.canonicalize().unwrap_or_else(|_| settings.home.clone());
    DenyList::new(patterns, Path::new(&config.environment.home)).with_path(data_dir)
}

/// The path of this executable, valid even after the file was replaced.
fn own_executable() -> PathBuf {
    if cfg!(target_os = "linux") {
        // In a new process before it executes anything, this is the executable of its parent.
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}
