//! The sandbox on Linux: namespaces and mounts, Landlock, a seccomp filter, and no capabilities.

mod cgroup;
mod descendants;
mod init;
mod landlock;
mod limits;
mod mounts;
mod namespaces;
mod placeholder;
mod quarantine;
mod renewal;
mod seccomp;
mod strict;
mod supervisor;

use std::{os::unix::net::UnixStream, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub(super) use init::run_init;
pub(super) use supervisor::run_supervisor;

use super::{
    channel,
    messages::{CommandEnd, Control, Exceeded, Isolation, Launch, SandboxOutcome},
};
use crate::SandboxProfile;

/// What the supervisor sends to the init process.
#[derive(Debug, Serialize, Deserialize)]
struct InitLaunch {
    argv: Vec<String>,
    directory: PathBuf,
    grace: Duration,
    profile: SandboxProfile,
    network: bool,
    unix_sockets: bool,
    file_bytes: u64,
    /// `None` if a cgroup limits them.
    memory_bytes: Option<u64>,
    processes: Option<u64>,
    isolation: Isolation,
    files: landlock::FileRules,
    /// The private directory for temporary files.
    tmp: PathBuf,
}

/// The socket that a stage of the helper gets as its standard input.
fn stdin_socket() -> Result<UnixStream, String> {
    let stdin = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
    stdin.map(UnixStream::from).map_err(|errno| format!("standard input is not a socket: {errno}"))
}
