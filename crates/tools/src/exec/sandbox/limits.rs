//! Tests of the limits on this machine: each tries to exceed a low limit of the same kind.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::{Sandbox, SandboxLimits, SandboxProfile, probe::ProbeProject};

/// A limit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxLimit {
    Memory,
    Processes,
    FileSize,
    TemporaryFiles,
}

/// The limits during the test. The kernel accepts no lower `pid_max` than 301.
const LOW: SandboxLimits = SandboxLimits {
    tmp_bytes: 4 << 20,
    file_bytes: 2 << 20,
    memory_bytes: 128 << 20,
    processes: 400,
    scan_entries: 1_000,
};
/// Above [`LOW`], with the reserved process ids.
const MANY_THREADS: usize = 750;
const MUCH_MEMORY: usize = 256 << 20;
/// How long memory is held, so that a limit that is checked at intervals is noticed.
const HOLD_TIME: Duration = Duration::from_secs(2);
static CHUNK: [u8; 1 << 20] = [1; 1 << 20];

impl SandboxLimit {
    pub const ALL: [Self; 4] = [Self::Memory, Self::Processes, Self::FileSize, Self::TemporaryFiles];

    /// The action that exceeds the limit.
    fn action(self) -> (&'static str, &'static str) {
        match self {
            Self::Memory => ("memory", ""),
            Self::Processes => ("threads", ""),
            // More than a file may have, and less than the directory.
            Self::FileSize => ("fill", "1x3"),
            // Several files, each smaller than a file may be.
            Self::TemporaryFiles => ("fill", "6x1"),
        }
    }

    /// The limit with its value, for people.
    pub fn describe(self, limits: &SandboxLimits) -> String {
        match self {
            Self::Memory => format!("memory {} MB", limits.memory_bytes >> 20),
            Self::Processes => format!("{} processes and threads", limits.processes),
            Self::FileSize => format!("a file {} MB", limits.file_bytes >> 20),
            Self::TemporaryFiles => format!("/tmp and /dev/shm {} MB each", limits.tmp_bytes >> 20),
        }
    }
}

impl fmt::Display for SandboxLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::FileSize => "file size",
            Self::TemporaryFiles => "temporary files",
        })
    }
}

impl Sandbox {
    /// The limits of a command, if commands are confined.
    pub fn limits(&self) -> Option<SandboxLimits> {
        self.settings().map(|settings| settings.limits)
    }

    /// Tests whether each limit holds. It creates a directory for temporary files, runs commands, and blocks.
    pub fn test_limits(&self) -> Result<Vec<(SandboxLimit, bool)>, String> {
        let Some(config) = &self.config else {
            return Ok(SandboxLimit::ALL.map(|limit| (limit, false)).to_vec());
        };
        let project = ProbeProject::create().map_err(|error| format!("a test directory: {error}"))?;
        let mut config = project.config(config);
        config.settings.limits = LOW;
        let sandbox = Self { config: Some(config.into()), ..self.clone() };
        if !project.run(&sandbox, SandboxProfile::Workspace, ("nothing", ""))?.0 {
            return Err("the test program cannot be run in the sandbox".to_owned());
        }
        let test = |limit: SandboxLimit| {
            let (is_exceeded, _) = project.run(&sandbox, SandboxProfile::Workspace, limit.action())?;
            Ok((limit, !is_exceeded))
        };
        SandboxLimit::ALL.into_iter().map(test).collect()
    }
}

/// Uses more memory than the limit.
pub(super) fn use_memory() {
    let memory = std::hint::black_box(vec![1_u8; MUCH_MEMORY]);
    thread::sleep(HOLD_TIME);
    drop(std::hint::black_box(memory));
}

/// Starts more threads than the limit.
pub(super) fn start_threads() -> io::Result<()> {
    let mut waiting = Vec::new();
    for _ in 0..MANY_THREADS {
        let (sender, ended) = mpsc::channel::<()>();
        thread::Builder::new().stack_size(64 << 10).spawn(move || ended.recv().is_ok())?;
        waiting.push(sender);
    }
    Ok(())
}

/// Writes files of so many megabytes to the temporary directory: `6x1` are six files of one.
pub(super) fn fill(size: &str) -> io::Result<()> {
    let parsed =
        size.split_once('x').and_then(|(files, size)| Some((files.parse().ok()?, size.parse().ok()?)));
    let (files, megabytes): (usize, usize) = parsed.ok_or(io::ErrorKind::InvalidInput)?;
    for number in 0..files {
        let mut file = File::create(std::env::temp_dir().join(format!("fill-{number}")))?;
        for _ in 0..megabytes {
            file.write_all(&CHUNK)?;
        }
    }
    Ok(())
}
