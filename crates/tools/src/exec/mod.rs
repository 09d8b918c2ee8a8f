//! `exec` and its kin: shell commands with a clean environment, a time limit and a bounded answer.
//!
//! | read | for |
//! |---|---|
//! | [`Shell`] | what all of them share: where they run, with what, and in which cage |
//! | `run` | `exec`: a command that is waited for |
//! | [`jobs`] | `exec_start`, `exec_status`, `exec_stop`: commands that run on beside the conversation |
//! | `process` | a process group from its start to its end |
//! | [`confine`] | what the kernel keeps a command from |
//! | [`watchdog`] | the end of all commands when the program is killed |
//!
//! **Invariant.** Nothing of the program's own environment reaches a command, and no process of its group outlives the call
//! or the job that started it, nor the program.

pub mod confine;
pub mod jobs;
pub(crate) mod process;
mod run;
pub mod watchdog;
pub(crate) mod words;

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf, sync::Arc, time::Duration};

pub use confine::{Cage, Confinement, LazyCage};
pub use jobs::{ExecStart, ExecStatus, ExecStop, Jobs};
pub use run::Exec;
use tokio::process::Command;
pub use watchdog::Watchdog;

use crate::{OutputStore, ToolsError, files::FileRoots};

/// What the tools that run commands share.
#[derive(Debug, Clone)]
pub struct Shell {
    pub roots: FileRoots,
    pub outputs: OutputStore,
    pub environment: Environment,
    pub cage: LazyCage,
    pub watchdog: Watchdog,
    pub limits: Limits,
}

/// All that a command finds in its environment, beside `TERM=dumb` and what keeps git from strangers' settings.
#[derive(Debug, Clone)]
pub struct Environment {
    pub path: String,
    pub home: String,
    pub lang: String,
    /// `TMPDIR`: a directory of its own for temporary files.
    pub tmp: PathBuf,
}

impl Environment {
    /// Instead of the program's own.
    pub(crate) fn give(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("LANG", &self.lang)
            .env("TMPDIR", &self.tmp)
            .env("TERM", "dumb");
    }

    /// The directory for temporary files, made if it is missing.
    pub(crate) fn make_tmp(&self) -> Result<(), ToolsError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.tmp);
        made.map_err(|source| ToolsError::Write { path: self.tmp.display().to_string(), source })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For a call that does not say how long it may take.
    pub time: Duration,
    /// The most that a call may ask for.
    pub max_time: Duration,
    /// Between the request to end and the end by force.
    pub grace: Duration,
    /// Jobs of one owner that run at once.
    pub jobs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_mins(2),
            max_time: Duration::from_mins(30),
            grace: Duration::from_secs(2),
            jobs: 8,
        }
    }
}

impl Shell {
    /// Makes what the first command needs. It starts processes and waits for them.
    fn prepare(&self) -> Result<(), ToolsError> {
        self.environment.make_tmp()?;
        let _ = self.cage.confinement();
        Ok(())
    }

    /// The directory that a command starts in.
    fn directory(&self, workdir: Option<&str>) -> Result<PathBuf, ToolsError> {
        let place = self.roots.resolve(workdir.unwrap_or("."))?;
        if place.metadata.is_dir() {
            return Ok(place.absolute());
        }
        Err(ToolsError::WrongKind { path: place.display_path(), is: "a file", wanted: "a directory" })
    }
}

/// The same, without holding up the turn.
async fn prepared(shell: &Arc<Shell>) -> Result<(), ToolsError> {
    let shell = Arc::clone(shell);
    let made = tokio::task::spawn_blocking(move || shell.prepare()).await;
    made.map_err(|error| ToolsError::Failed(format!("the tool broke down: {error}")))?
}

#[cfg(test)]
mod tests;
