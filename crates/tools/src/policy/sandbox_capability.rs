//! What the sandbox guarantees for commands, as an input of the policy.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use super::ApprovalMode;
use crate::{
    SandboxProfile,
    exec::{Sandbox, sandbox::Guarantee},
};

/// Whether the kernel provides a sandbox profile completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSupport {
    Complete,
    /// The guarantees of the profile that this machine cannot keep.
    Missing(Vec<Guarantee>),
}

impl ProfileSupport {
    fn new(missing: &[Guarantee]) -> Self {
        if missing.is_empty() { Self::Complete } else { Self::Missing(missing.to_vec()) }
    }

    /// The missing guarantees in one line; `None` if the profile is complete.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Missing(guarantees) => {
                let names: Vec<String> = guarantees.iter().map(|missing| format!("\"{missing}\"")).collect();
                Some(names.join(", "))
            }
        }
    }

    fn keeps(&self, guarantee: Guarantee) -> bool {
        match self {
            Self::Complete => true,
            Self::Missing(missing) => !missing.contains(&guarantee),
        }
    }
}

/// The support for each sandbox profile on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxCapability {
    /// Commands that are classified as read-only run in this profile.
    pub read_only: ProfileSupport,
    /// All other commands run in this profile.
    pub workspace: ProfileSupport,
}

impl SandboxCapability {
    pub fn complete() -> Self {
        Self { read_only: ProfileSupport::Complete, workspace: ProfileSupport::Complete }
    }

    /// Nothing is guaranteed: every command asks.
    pub fn none() -> Self {
        let missing = ProfileSupport::new(&Guarantee::ALL);
        Self { read_only: missing.clone(), workspace: missing }
    }

    fn of(&self, profile: SandboxProfile) -> &ProfileSupport {
        match profile {
            SandboxProfile::ReadOnly => &self.read_only,
            SandboxProfile::Workspace => &self.workspace,
        }
    }

    /// Checks that a mode is available. The error names the missing guarantees.
    pub fn check_mode(&self, mode: ApprovalMode) -> Result<(), String> {
        match self.workspace.missing().filter(|_| mode.is_permissive()) {
            None => Ok(()),
            Some(missing) => Err(format!(
                "the mode {mode} is not available, because the sandbox of this machine does not guarantee {missing}. \
                 Use the mode ask; lango doctor shows what the sandbox provides"
            )),
        }
    }
}

impl From<&Sandbox> for SandboxCapability {
    fn from(sandbox: &Sandbox) -> Self {
        let support = |profile| ProfileSupport::new(sandbox.missing(profile));
        Self { read_only: support(SandboxProfile::ReadOnly), workspace: support(SandboxProfile::Workspace) }
    }
}

/// The sandbox of commands, as far as the policy depends on it.
#[derive(Debug, Clone)]
pub struct CommandSandbox {
    pub capability: SandboxCapability,
    /// Whether the configuration gives commands the network.
    pub network: bool,
    /// The directories that commands may write to, with links resolved. If empty, no path is refused as not writable.
    pub writable: Vec<PathBuf>,
    /// What `~` expands to.
    pub home: PathBuf,
}

impl CommandSandbox {
    pub fn new(capability: SandboxCapability) -> Self {
        Self { capability, network: false, writable: Vec::new(), home: PathBuf::new() }
    }

    /// Whether commands of a profile are known to have no network.
    pub fn blocks_network(&self, profile: SandboxProfile) -> bool {
        let is_offered = self.network && profile == SandboxProfile::Workspace;
        !is_offered && self.capability.of(profile).keeps(Guarantee::NoNetwork)
    }

    /// Whether commands of the `workspace` profile are known to write only to `writable`, without additional privileges.
    pub(super) fn confines_writes(&self) -> bool {
        self.capability.workspace.keeps(Guarantee::WritesConfined)
    }
}

/// The sandbox of commands, probed on first use, because probing starts processes.
#[derive(Clone)]
pub struct LazyCommandSandbox(Arc<LazyLock<CommandSandbox, CommandSandboxInit>>);

type CommandSandboxInit = Box<dyn FnOnce() -> CommandSandbox + Send>;

impl LazyCommandSandbox {
    pub fn new(probe: impl FnOnce() -> CommandSandbox + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(probe))))
    }

    /// The first call probes and blocks.
    pub fn get(&self) -> &CommandSandbox {
        &self.0
    }
}

impl fmt::Debug for LazyCommandSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyCommandSandbox")
    }
}
