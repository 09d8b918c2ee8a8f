//! A server that is a program of this machine: its own process group, a clean environment, and what it says beside its
//! answers kept for when it fails.

use std::{io, path::Path, process::Stdio};

use tokio::process::{ChildStdin, ChildStdout, Command};

use super::Ground;
use crate::exec::{process::ProcessGroupGuard, stderr_tail::StderrTail};

/// A program that runs as long as this is there.
pub(super) struct Program {
    _leash: ProcessGroupGuard,
    words: StderrTail,
}

impl Program {
    /// Starts it, and gives the pipes to talk through.
    pub(super) fn start(
        (command, args): (&str, &[String]),
        env: &[(String, String)],
        cwd: &Path,
        ground: &Ground,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let _ = ground.environment.create_tmp_dir();
        let mut line = Command::new(command);
        ground.environment.apply(&mut line);
        line.args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = line.spawn().map_err(|error| not_started(command, cwd, &error))?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let leash = ProcessGroupGuard::new(child, ground.grace);
        let (Some(output), Some(input), Some(errors)) = pipes else {
            return Err(format!("`{command}` has no pipes to talk through"));
        };
        let words = StderrTail::default();
        tokio::spawn(words.clone().read_from(errors));
        Ok((Self { _leash: leash, words }, output, input))
    }

    /// The end of what it said to standard error, for people and models.
    pub(super) fn last_words(&self) -> Option<String> {
        self.words.text()
    }
}

fn not_started(command: &str, cwd: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !cwd.is_dir() => {
            format!("its directory {} is not there; correct `cwd`", cwd.display())
        }
        io::ErrorKind::NotFound => {
            format!(
                "there is no program `{command}` on the PATH; install it, or write its whole path as `command`"
            )
        }
        _ => format!("`{command}` cannot be run: {error}"),
    }
}
