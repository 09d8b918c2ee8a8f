//! A server as a local program, with its own process group, a clean environment, and its standard error for error messages.

use std::{io, path::Path, process::Stdio};

use tokio::process::{ChildStdin, ChildStdout, Command};

use super::ServerEnv;
use crate::{
    SandboxProfile,
    exec::{
        notes,
        process::ProcessGroupGuard,
        program::{ProgramInput, SandboxedProgram},
        sandbox::{NOT_CONFINED, SandboxedCommand},
        stderr_tail::StderrTail,
    },
};

/// A running server program. Dropping it terminates the process group.
pub(super) struct StdioProgram {
    group: ProcessGroupGuard,
    stderr: StderrTail,
    is_confined: bool,
}

impl StdioProgram {
    /// Starts the program and returns its standard output and input.
    pub(super) fn start(
        (command, args): (&str, &[String]),
        env: &[(String, String)],
        cwd: &Path,
        server_env: &ServerEnv,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let _ = server_env.env.create_tmp_dir();
        let mut line = Command::new(command);
        server_env.env.apply(&mut line);
        line.args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = line.spawn().map_err(|error| spawn_error(command, cwd, &error))?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let group = ProcessGroupGuard::new(child, server_env.grace);
        let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
            return Err(format!("`{command}` was started without pipes"));
        };
        let tail = StderrTail::default();
        tokio::spawn(tail.clone().read_from(stderr));
        Ok((Self { group, stderr: tail, is_confined: false }, stdout, stdin))
    }

    /// Like [`start`](Self::start), in the sandbox.
    pub(super) async fn start_sandboxed(
        (command, args): (&str, &[String]),
        env: &[(String, String)],
        cwd: &Path,
        server_env: &ServerEnv,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let fail = |error: io::Error| spawn_error(command, cwd, &error);
        let sandbox = server_env.sandbox.built().await;
        let sandboxed = SandboxedCommand {
            profile: SandboxProfile::Workspace,
            granted: Vec::new(),
            argv: [command.to_owned()].into_iter().chain(args.iter().cloned()).collect(),
            directory: cwd.canonicalize().map_err(fail)?,
            grace: server_env.grace,
        };
        let program = SandboxedProgram::new(sandbox, sandboxed).map_err(fail)?;
        let mut program = program.ok_or_else(|| format!("`{command}` {NOT_CONFINED}"))?;
        server_env.env.apply(program.line());
        let variables = env.iter().map(|(name, value)| (name, value));
        program.line().envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (pipes, group) = program.start(sandbox, ProgramInput::Pipe).map_err(fail)?;
        let (Some(stdout), Some(stdin), Some(stderr)) = (pipes.stdout, pipes.stdin, pipes.stderr) else {
            return Err(format!("`{command}` was started without pipes"));
        };
        let tail = StderrTail::default();
        tokio::spawn(tail.clone().read_from(stderr));
        Ok((Self { group, stderr: tail, is_confined: true }, stdout, stdin))
    }

    /// Why the sandbox did not start the program, after its output has ended.
    pub(super) async fn failure(&mut self) -> Option<String> {
        self.group.failure().await
    }

    /// The end of its standard error, with the settings that would allow what the sandbox refused.
    pub(super) fn stderr(&self) -> Option<String> {
        let text = self.stderr.text()?;
        let note = notes::server_note(&text).filter(|_| self.is_confined);
        Some(note.map_or_else(|| text.clone(), |note| format!("{text} ({note})")))
    }
}

fn spawn_error(command: &str, cwd: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !cwd.is_dir() => {
            format!("its directory {} does not exist; correct `cwd`", cwd.display())
        }
        io::ErrorKind::NotFound => {
            format!(
                "the program `{command}` is not on the PATH; install it, or set `command` to its full path"
            )
        }
        _ => format!("`{command}` cannot be run: {error}"),
    }
}
