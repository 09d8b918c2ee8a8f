//! Shell commands with a clean environment, a sandbox, a time limit and bounded output.
//!
//! | module | contents |
//! |---|---|
//! | [`ExecToolContext`] | roots, environment, sandbox and limits, shared by the tools |
//! | `run` | `exec`: a command in the foreground |
//! | [`jobs`] | `exec_start`, `exec_status`, `exec_stop`: background jobs |
//! | `notes` | what would allow what the sandbox refused |
//! | `process` | a process group from spawn to SIGKILL |
//! | `program` | a program in the sandbox |
//! | `stderr_tail` | the last bytes of a program's standard error |
//! | [`sandbox`] | file system and network restrictions, by Landlock and network namespaces |
//! | [`watchdog`] | a helper process that kills all commands when this program dies |
//!
//! **Invariant.** A command inherits no environment variable of this program. No process of its process group outlives its
//! call or job, or this program.

pub mod jobs;
pub(crate) mod notes;
pub(crate) mod process;
pub(crate) mod program;
mod run;
pub mod sandbox;
pub(crate) mod stderr_tail;
pub mod watchdog;

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf, sync::Arc, time::Duration};

pub use jobs::{BackgroundJobs, ExecStart, ExecStatus, ExecStop};
pub use run::Exec;
pub use sandbox::{Confinement, LazySandbox, Sandbox};
use tokio::process::Command;
pub use watchdog::Watchdog;

use crate::{OutputStore, ToolsError, files::FileRoots};

/// Everything that the tools `exec` and `exec_*` share.
#[derive(Debug, Clone)]
pub struct ExecToolContext {
    pub roots: FileRoots,
    pub outputs: OutputStore,
    pub env: EnvVars,
    pub sandbox: LazySandbox,
    pub watchdog: Watchdog,
    pub limits: ExecLimits,
}

/// The environment variables of a command. `TERM=dumb` and some git settings are added.
#[derive(Debug, Clone)]
pub struct EnvVars {
    pub path: String,
    pub home: String,
    pub lang: String,
    /// `TMPDIR`: a directory for temporary files, apart from the system's.
    pub tmp: PathBuf,
}

impl EnvVars {
    /// Sets these variables, and removes all inherited ones.
    pub(crate) fn apply(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("LANG", &self.lang)
            .env("TMPDIR", &self.tmp)
            .env("TERM", "dumb");
    }

    /// Creates the directory for temporary files if it is missing.
    pub(crate) fn create_tmp_dir(&self) -> Result<(), ToolsError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.tmp);
        created.map_err(|source| ToolsError::Write { path: self.tmp.display().to_string(), source })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ExecLimits {
    /// Timeout of a call without `timeout_s`.
    pub time: Duration,
    /// Upper limit of `timeout_s`.
    pub max_time: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How many jobs of one owner may run at the same time.
    pub jobs: usize,
}

impl Default for ExecLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_mins(2),
            max_time: Duration::from_mins(30),
            grace: Duration::from_secs(2),
            jobs: 8,
        }
    }
}

impl ExecToolContext {
    /// Initializes what the first command needs. It blocks, because the sandbox starts probe processes.
    fn initialize(&self) -> Result<(), ToolsError> {
        self.env.create_tmp_dir()?;
        let _ = self.sandbox.get();
        Ok(())
    }

    /// The working directory of a command.
    fn resolve_workdir(&self, workdir: Option<&str>) -> Result<PathBuf, ToolsError> {
        let found = self.roots.resolve(workdir.unwrap_or("."))?;
        if found.metadata.is_dir() {
            return Ok(found.absolute());
        }
        Err(ToolsError::WrongKind { path: found.display_path(), is: "a file", wanted: "a directory" })
    }
}

/// Runs [`ExecToolContext::initialize`] on a blocking thread.
async fn prepare(context: &Arc<ExecToolContext>) -> Result<(), ToolsError> {
    let context = Arc::clone(context);
    let initialized = tokio::task::spawn_blocking(move || context.initialize()).await;
    initialized.map_err(|error| ToolsError::Failed(format!("the tool crashed: {error}")))?
}

#[cfg(test)]
mod tests;
