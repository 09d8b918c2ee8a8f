//! `[tools]` and `[approval]` in `lango.toml`: the access of tools, and the approval of their calls.

use super::{ConfigError, Env, models::Seconds};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tools::{
    Mask, Safety,
    exec::{EnvVars, ExecLimits, sandbox::SandboxLimits},
    policy::{ApprovalMode, Decision, Policy, PolicyRule, Subject},
};

/// The default size of the output store, in megabytes.
const KEPT_MB: u64 = 1_024;

/// The lowest memory limit, in bytes.
const LEAST_MEMORY: u64 = 256 << 20;
const PROCESSES: std::ops::RangeInclusive<u64> = 400..=1_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ToolsSection {
    /// A single root, instead of `roots`.
    root: Option<PathBuf>,
    /// The directories that tools see. Relative paths of a call are relative to the first one; the others are reached by
    /// absolute paths. `write = false` makes one read-only. Roots must not overlap.
    ///
    /// Default: the working directory
    roots: Vec<RootEntry>,
    /// Further directories that commands may write to.
    writable: Vec<PathBuf>,
    /// Further files and directories that commands may read, such as toolchains that `PATH` does not lead to.
    readable: Vec<PathBuf>,
    /// Files that neither commands nor file tools may read, in addition to private keys, credentials and `.env` files. A
    /// pattern with `/` is a path, any other a file name; `*` stands for any characters, and `!` makes an exception.
    #[serde(alias = "deny_read")]
    deny_read: Vec<String>,
    /// Whether commands have network access.
    network: bool,
    /// Whether commands may connect to Unix sockets, such as those of Docker, `ssh-agent` or a database.
    #[serde(alias = "unix_sockets")]
    unix_sockets: bool,
    /// Addresses of this machine or its network that `fetch` may reach, each with its port.
    #[serde(alias = "fetch_local")]
    fetch_local: Vec<SocketAddr>,
    /// Time limit of a command whose call sets none.
    ///
    /// Default: `120`
    #[serde(rename = "timeoutS", alias = "timeout_s")]
    timeout: Option<Seconds>,
    /// The longest time limit that a call may set.
    ///
    /// Default: `1800`
    #[serde(rename = "maxTimeoutS", alias = "max_timeout_s")]
    max_timeout: Option<Seconds>,
    /// Megabytes of memory that the processes of one command may use together, at least 256.
    ///
    /// Default: three quarters of the machine's memory
    #[serde(alias = "memory_mb")]
    memory_mb: Option<u64>,
    /// Processes and threads that one command may have, from 400 to 1000000.
    ///
    /// Default: `4096`
    processes: Option<u64>,
    /// Megabytes of whole outputs that are kept in the data directory.
    ///
    /// Default: `1024`
    #[serde(alias = "keep_mb")]
    keep_mb: Option<u64>,
}

/// A directory, or a directory with its permissions.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a directory, or { path = \"…\", write = false }")]
enum RootEntry {
    Plain(PathBuf),
    Limited(LimitedRoot),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitedRoot {
    /// The directory.
    path: PathBuf,
    /// Whether it may be written.
    #[serde(default = "yes")]
    write: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ApprovalSection {
    /// What runs without asking: nothing that acts (`"plan"`), what rules allow (`"ask"`), file edits inside the roots
    /// (`"edits"`), or whatever stays inside the sandbox (`"auto"`).
    ///
    /// Default: `"ask"`
    mode: ApprovalMode,
    /// Tools that only read.
    ///
    /// Default: `"allow"`
    read: Option<Decision>,
    /// Tools that write files.
    ///
    /// Default: `"ask"`
    write: Option<Decision>,
    /// Tools that run programs.
    ///
    /// Default: `"ask"`
    execute: Option<Decision>,
    /// Tools that use the network.
    ///
    /// Default: `"ask"`
    network: Option<Decision>,
    /// Single tools by name. A tool's own rule precedes that of its class, but a denial always counts.
    tools: BTreeMap<String, Decision>,
    /// Shell commands, by their first words: `"cargo test" = "allow"`. Each simple command of a script is judged by itself.
    commands: BTreeMap<String, Decision>,
    /// What happens on a server if a call of a user who is not an administrator needs approval: it is refused (`"deny"`), or
    /// the user is asked.
    ///
    /// Default: `"deny"`
    users: Users,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Users {
    #[default]
    Deny,
    Ask,
}

/// The resolved tool settings.
#[derive(Clone, Debug)]
pub(crate) struct ToolSettings {
    /// The first root, which relative paths refer to.
    pub(crate) root: RootSettings,
    /// The other roots, reached by absolute paths.
    pub(crate) others: Vec<RootSettings>,
    /// Further directories that commands may write to.
    pub(crate) writable: Vec<PathBuf>,
    /// Further files and directories that commands may read.
    pub(crate) readable: Vec<PathBuf>,
    /// Patterns of files that must not be read, in addition to the defaults.
    pub(crate) deny_read: Vec<String>,
    /// Whether commands may use the network.
    pub(crate) network: bool,
    /// Whether commands may use Unix sockets.
    pub(crate) unix_sockets: bool,
    /// The local addresses that `fetch` may reach.
    pub(crate) fetch_local: Vec<SocketAddr>,
    pub(crate) limits: ExecLimits,
    pub(crate) sandbox_limits: SandboxLimits,
    pub(crate) keep_bytes: u64,
    pub(crate) environment: EnvVars,
    pub(crate) policy: Policy,
    pub(crate) mode: ApprovalMode,
    /// Whether users of a server who are not administrators may approve calls.
    pub(crate) users_decide: bool,
    /// Masks the secrets of the configuration.
    pub(crate) mask: Mask,
}

/// A directory that tools can access.
#[derive(Clone, Debug)]
pub(crate) struct RootSettings {
    pub(crate) path: PathBuf,
    pub(crate) write: bool,
}

impl ToolsSection {
    /// Paths are relative to the file. The default root is the working directory.
    pub(super) fn resolve(
        self,
        approval: ApprovalSection,
        (workdir, home, file): (&Path, &Path, &Path),
        (env, secrets): (&Env, Vec<String>),
    ) -> Result<ToolSettings, ConfigError> {
        let base = file.parent().unwrap_or(Path::new(""));
        let (root, others) = roots(self.root, self.roots, (workdir, file))?;
        let token = env.secret("LANGO_SERVER_TOKEN")?.map(|token| token.trim().to_owned());
        let default = ExecLimits::default();
        let time = self.timeout.map_or(default.time, Seconds::time);
        let max_time = self.max_timeout.map_or(default.max_time, Seconds::time).max(time);
        let sandbox_limits = sandbox_limits(self.memory_mb, self.processes, file)?;
        let environment = EnvVars {
            path: env.text("PATH")?.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned()),
            home: env.path("HOME").unwrap_or_else(|| workdir.to_owned()).display().to_string(),
            lang: env.text("LANG")?.unwrap_or_else(|| "C.UTF-8".to_owned()),
            tmp: home.join("tmp"),
        };
        Ok(ToolSettings {
            root,
            others,
            writable: self.writable.into_iter().map(|path| base.join(path)).collect(),
            readable: self.readable.into_iter().map(|path| base.join(path)).collect(),
            deny_read: self.deny_read,
            network: self.network,
            unix_sockets: self.unix_sockets,
            fetch_local: self.fetch_local,
            limits: ExecLimits { time, max_time, ..default },
            sandbox_limits,
            keep_bytes: self.keep_mb.unwrap_or(KEPT_MB) << 20,
            environment,
            users_decide: approval.users == Users::Ask,
            mode: approval.mode,
            policy: approval.policy(),
            mask: Mask::new(secrets.into_iter().chain(token)),
        })
    }
}

/// The limits of one command. Below the lowest ones, shells and compilers do not start.
fn sandbox_limits(
    memory_mb: Option<u64>,
    processes: Option<u64>,
    file: &Path,
) -> Result<SandboxLimits, ConfigError> {
    let default = SandboxLimits::default();
    let limits = SandboxLimits {
        memory_bytes: memory_mb.map_or(default.memory_bytes, |megabytes| megabytes.saturating_mul(1 << 20)),
        processes: processes.unwrap_or(default.processes),
        ..default
    };
    let message = match limits {
        _ if limits.memory_bytes < LEAST_MEMORY => "memoryMb in [tools] must be at least 256",
        _ if !PROCESSES.contains(&limits.processes) => "processes in [tools] must be between 400 and 1000000",
        _ => return Ok(limits),
    };
    Err(ConfigError::Value { path: file.to_owned(), message: message.to_owned() })
}

/// The first root, and the others. `root` and `roots` exclude each other.
fn roots(
    root: Option<PathBuf>,
    roots: Vec<RootEntry>,
    (workdir, file): (&Path, &Path),
) -> Result<(RootSettings, Vec<RootSettings>), ConfigError> {
    if root.is_some() && !roots.is_empty() {
        let message = "[tools] has root and roots; name all directories in roots".to_owned();
        return Err(ConfigError::Value { path: file.to_owned(), message });
    }
    let base = file.parent().unwrap_or(Path::new(""));
    let mut resolved = roots.into_iter().chain(root.map(RootEntry::Plain)).map(|written| match written {
        RootEntry::Plain(path) => RootSettings { path: base.join(path), write: true },
        RootEntry::Limited(LimitedRoot { path, write }) => RootSettings { path: base.join(path), write },
    });
    let first = resolved.next().unwrap_or_else(|| RootSettings { path: workdir.to_owned(), write: true });
    Ok((first, resolved.collect()))
}

impl ApprovalSection {
    fn policy(self) -> Policy {
        let classes = [
            (Safety::Read, self.read),
            (Safety::Write, self.write),
            (Safety::Execute, self.execute),
            (Safety::Network, self.network),
        ];
        let classes =
            classes.into_iter().filter_map(|(class, decision)| Some((Subject::Class(class), decision?)));
        let tools = self.tools.into_iter().map(|(name, decision)| (Subject::Tool(name), decision));
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        let commands =
            self.commands.into_iter().map(|(text, decision)| (Subject::Command(words(text)), decision));
        let all = classes.chain(tools).chain(commands);
        Policy { rules: all.map(|(subject, decision)| PolicyRule::new(subject, decision)).collect() }
    }
}
