//! What a sandbox is built from: the configuration, and the command of one call.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::deny::DenyList;
use crate::SandboxProfile;

/// The configuration of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The binary that understands [`CONFINE`](super::CONFINE).
    pub helper: PathBuf,
    pub settings: SandboxSettings,
}

/// What commands may access. Paths are absolute and without links.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SandboxSettings {
    /// The roots, and whether they may be written.
    pub roots: Vec<RootAccess>,
    /// Further directories that commands of the profile `workspace` may write to.
    pub writable: Vec<PathBuf>,
    /// Further directories and files that commands may read.
    pub readable: Vec<PathBuf>,
    /// The user's home directory: only the toolchains in it are readable.
    pub home: PathBuf,
    /// `PATH` of the commands.
    pub path: String,
    /// The data directory of this program. Commands cannot access it.
    pub data_dir: PathBuf,
    /// The directory of the agents, which commands cannot change.
    pub agents_dir: Option<PathBuf>,
    pub deny: DenyList,
    /// Denied files outside the roots, which are searched once, when the sandbox is built.
    pub denied: Vec<PathBuf>,
    pub network: bool,
    pub unix_sockets: bool,
    pub limits: SandboxLimits,
}

/// A directory that file tools and commands access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootAccess {
    pub path: PathBuf,
    pub write: bool,
}

/// Limits of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Size of `/tmp`, which is in memory.
    pub tmp_bytes: u64,
    /// Size of a file.
    pub file_bytes: u64,
    /// Memory of all processes of a command.
    pub memory_bytes: u64,
    /// Processes and threads of a command.
    pub processes: u64,
    /// How many directory entries are searched for protected and denied files. Where there are more, no command runs.
    pub scan_entries: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            tmp_bytes: 1 << 30,
            file_bytes: 16 << 30,
            memory_bytes: default_memory(),
            processes: DEFAULT_PROCESSES,
            scan_entries: 3_000_000,
        }
    }
}

/// Parallel builds and runtimes with a thread per core stay below it; a fork bomb reaches it before the machine is unusable.
const DEFAULT_PROCESSES: u64 = 4_096;

/// Three quarters of the machine's memory: a large build can use most of it, and the other programs keep running.
fn default_memory() -> u64 {
    const UNKNOWN: u64 = 8 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(UNKNOWN, |kilobytes: u64| kilobytes * 1024 / 4 * 3)
}

/// One command in the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxedCommand {
    pub(crate) profile: SandboxProfile,
    /// Protected paths that this command may write.
    pub(crate) granted: Vec<PathBuf>,
    pub(crate) argv: Vec<String>,
    pub(crate) directory: PathBuf,
    /// Time between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
}

impl SandboxSettings {
    /// The directories that a profile may write to.
    pub(super) fn writable_dirs(&self, profile: SandboxProfile) -> Vec<PathBuf> {
        if profile == SandboxProfile::ReadOnly {
            return Vec::new();
        }
        let roots = self.roots.iter().filter(|root| root.write).map(|root| &root.path);
        roots.chain(&self.writable).cloned().collect()
    }

    /// `PATH` for a profile. Relative entries name a program of whichever directory the command is in, so no profile has them.
    /// Programs inside a root can be changed by a command, so only approved commands find them.
    pub(crate) fn search_path(&self, profile: SandboxProfile) -> String {
        let is_inside_root = |dir: &PathBuf| {
            let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
            self.roots.iter().any(|root| real.starts_with(&root.path) || dir.starts_with(&root.path))
        };
        let entries = std::env::split_paths(&self.path).filter(|dir| dir.is_absolute());
        let kept = entries.filter(|dir| profile == SandboxProfile::Workspace || !is_inside_root(dir));
        let joined = std::env::join_paths(kept).unwrap_or_default();
        joined.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_path_has_no_relative_entries_and_inside_a_root_only_for_approved_commands() {
        let settings = SandboxSettings {
            roots: vec![RootAccess { path: "/project".into(), write: true }],
            path: "bin:/project/node_modules/.bin::.:/usr/bin:/bin".to_owned(),
            ..SandboxSettings::default()
        };
        assert_eq!(settings.search_path(SandboxProfile::ReadOnly), "/usr/bin:/bin");
        assert_eq!(
            settings.search_path(SandboxProfile::Workspace),
            "/project/node_modules/.bin:/usr/bin:/bin"
        );
    }
}
