//! The messages between this program and the supervisor of a command.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::settings::{SandboxSettings, SandboxedCommand};

/// What this program sends to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) isolation: Isolation,
    pub(crate) settings: SandboxSettings,
    pub(crate) command: SandboxedCommand,
}

/// The mechanism that confines a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Isolation {
    /// Namespaces and mounts, with Landlock and seccomp as a second line.
    Namespaces,
    /// Landlock and seccomp, where the system refuses namespaces.
    Landlock,
}

/// What the supervisor and the init process answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SandboxOutcome {
    Exited(CommandEnd),
    /// The sandbox could not be set up.
    Failed(String),
    /// The program could not be executed in the sandbox.
    CannotRun(String),
}

/// A limit that a command reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exceeded {
    Memory,
    Processes,
}

/// The end of a command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CommandEnd {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Processes were still running after the exit, and were terminated.
    pub(crate) left_behind: bool,
    /// The limits that the command reached, as far as the kernel or the init process noticed it.
    #[serde(default)]
    pub(crate) exceeded: Vec<Exceeded>,
    /// Protected files that the command created; they were renamed.
    #[serde(default)]
    pub(crate) quarantined: Vec<PathBuf>,
}

/// A request of the program to a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Send SIGTERM to all processes.
    Terminate,
}
