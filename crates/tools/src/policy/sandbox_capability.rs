//! What the sandbox guarantees for commands, as an input of the policy.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use super::ApprovalMode;
use crate::exec::{
    Confinement,
    sandbox::{FileConfinement, NetworkConfinement},
};

/// Whether the kernel provides a sandbox profile completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSupport {
    Complete,
    /// The guarantees that are missing, each as a clause such as "commands can write outside the roots".
    Missing(Vec<String>),
}

impl ProfileSupport {
    /// The missing guarantees in one line; `None` if the profile is complete.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Missing(guarantees) => Some(guarantees.join(", ")),
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

    /// No profile is available: every command asks.
    pub fn none(why: &str) -> Self {
        let missing = ProfileSupport::Missing(vec![why.to_owned()]);
        Self { read_only: missing.clone(), workspace: missing }
    }

    /// Checks that a mode is available. The error names the missing guarantee.
    pub fn check_mode(&self, mode: ApprovalMode) -> Result<(), String> {
        match self.workspace.missing().filter(|_| mode.is_permissive()) {
            None => Ok(()),
            Some(missing) => Err(format!(
                "the mode {mode} is not available, because the sandbox is incomplete on this machine: {missing}. \
                 Use the mode ask; lango doctor shows what the sandbox provides"
            )),
        }
    }
}

impl From<&Confinement> for SandboxCapability {
    fn from(confinement: &Confinement) -> Self {
        let mut missing = Vec::new();
        if let FileConfinement::Open { why } = &confinement.files {
            missing.push(format!("commands can write wherever this program can ({why})"));
        }
        match confinement.network {
            NetworkConfinement::Namespace(_) | NetworkConfinement::Allowed => {}
            NetworkConfinement::LandlockTcp => missing.push("commands can send UDP packets".to_owned()),
            NetworkConfinement::Open => missing.push("commands can use the network".to_owned()),
        }
        let support =
            if missing.is_empty() { ProfileSupport::Complete } else { ProfileSupport::Missing(missing) };
        Self { read_only: support.clone(), workspace: support }
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

    /// Whether commands of the `workspace` profile are known to have no network.
    pub fn blocks_network(&self) -> bool {
        !self.network && self.capability.workspace == ProfileSupport::Complete
    }

    /// Whether a command of the `workspace` profile cannot do what the policy sees it try.
    pub(super) fn is_enforced(&self) -> bool {
        self.capability.workspace == ProfileSupport::Complete
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
