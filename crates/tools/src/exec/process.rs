//! A command as a process group: spawned with its output in one pipe, and terminated as a whole.

use std::{
    io::{self, PipeReader, Write},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{Pid, Signal};
use serde_json::{Map, Value};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    process::{Child, ChildStderr, ChildStdin, Command},
    runtime::Handle,
    time::timeout,
};

use super::{
    ExecToolContext,
    watchdog::{Watchdog, WatchedGroup},
};
use crate::ToolsError;

/// How long to wait for output after the exit: a process that left the group may still hold the pipe.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Variables for git, which runs programs that a repository's configuration names. A project may contain a directory that
/// looks like a bare repository, so those are ignored.
const GIT: [(&str, &str); 6] = [
    // Read-only commands must not write the index, which would run a hook.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

/// A running command. Dropping it terminates its process group.
pub(crate) struct RunningCommand {
    guard: ProcessGroupGuard,
    output: Receiver,
    buffer: Vec<u8>,
}

/// The exit of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandExit {
    pub(crate) status: Option<ExitStatus>,
    /// Processes of the group were still running after the exit, and were terminated.
    pub(crate) left_behind: bool,
}

impl CommandExit {
    pub(super) fn write_to(&self, answer: &mut Map<String, Value>) {
        let code = self.status.and_then(|status| status.code());
        let signal = self.status.and_then(|status| status.signal());
        if let Some(code) = code {
            answer.insert("exit_code".to_owned(), code.into());
        }
        if let Some(signal) = signal {
            answer.insert("signal".to_owned(), signal.into());
        }
        if self.left_behind {
            let note = "background processes were terminated; use exec_start to keep them running";
            answer.insert("note".to_owned(), note.into());
        }
    }
}

impl RunningCommand {
    /// Starts a script in the sandbox. It waits at the gate until the watchdog knows its process group.
    pub(super) fn start(
        context: &ExecToolContext,
        script: &str,
        directory: &Path,
    ) -> Result<Self, ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let (reader, writer) = io::pipe().map_err(fail)?;
        let (gate, opener) = io::pipe().map_err(fail)?;
        let sandbox = context.sandbox.get();
        let line = sandbox.command_line(script);
        let mut command = Command::new(&line[0]);
        context.env.apply(&mut command);
        command.envs(GIT);
        command
            .args(&line[1..])
            .current_dir(directory)
            .stdin(gate)
            .stdout(writer.try_clone().map_err(fail)?)
            .stderr(writer);
        if !sandbox.creates_process_group() {
            command.process_group(0);
        }
        let (running, _) = Self::spawn(command, reader, (context.limits.grace, &context.watchdog))?;
        // Open the gate. A failed write means that the process is already gone.
        let _ = (&opener).write_all(b"\n");
        Ok(running)
    }

    /// Spawns a command that writes to `output`, and returns its other pipes.
    pub(crate) fn spawn(
        mut command: Command,
        output: PipeReader,
        (grace, watchdog): (Duration, &Watchdog),
    ) -> Result<(Self, CommandPipes), ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let mut child = command.spawn().map_err(fail)?;
        // `command` holds the write end of the pipe. Dropping it lets the pipe close with the last process.
        drop(command);
        let pipes = CommandPipes { stdin: child.stdin.take(), stderr: child.stderr.take() };
        let group = ProcessGroupGuard::new(child, grace).watched(watchdog);
        let output = Receiver::from_owned_fd(OwnedFd::from(output)).map_err(fail)?;
        Ok((Self { guard: group, output, buffer: vec![0; 64 * 1024] }, pipes))
    }

    /// Reads output until the command exits. Cancel safe: all output that was read is in `sink`.
    pub(crate) async fn wait(&mut self, sink: &mut OutputSink<'_>) -> CommandExit {
        let status = self.pump(sink).await;
        let left_behind = self.guard.group.send(Signal::TERM);
        if left_behind {
            let _ = timeout(self.guard.grace, self.drain(sink)).await;
            self.guard.group.send(Signal::KILL);
        }
        let _ = timeout(DRAIN_TIME, self.drain(sink)).await;
        self.guard.child = None;
        CommandExit { status, left_behind }
    }

    /// Sends SIGTERM to the group, and SIGKILL after the grace period.
    pub(crate) async fn terminate(&mut self, sink: &mut OutputSink<'_>) -> CommandExit {
        self.guard.group.send(Signal::TERM);
        let status = timeout(self.guard.grace, self.pump(sink)).await.unwrap_or_default();
        self.guard.group.send(Signal::KILL);
        let status = match status {
            Some(status) => Some(status),
            None => self.pump(sink).await,
        };
        let _ = timeout(DRAIN_TIME, self.drain(sink)).await;
        self.guard.child = None;
        CommandExit { status, left_behind: false }
    }

    /// Reads output until the command exits, and returns its status.
    async fn pump(&mut self, sink: &mut OutputSink<'_>) -> Option<ExitStatus> {
        let child = self.guard.child.as_mut()?;
        let mut open = true;
        loop {
            tokio::select! {
                read = self.output.read(&mut self.buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(length) => sink(&self.buffer[..length]),
                },
                status = child.wait() => return status.ok(),
            }
        }
    }

    async fn drain(&mut self, sink: &mut OutputSink<'_>) {
        while let Ok(length) = self.output.read(&mut self.buffer).await {
            if length == 0 {
                return;
            }
            sink(&self.buffer[..length]);
        }
    }
}

/// Receives output chunks.
pub(crate) type OutputSink<'a> = dyn FnMut(&[u8]) + Send + 'a;

/// Standard input and standard error of a command, if they are pipes.
pub(crate) struct CommandPipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// The leader of a process group. Dropping it sends SIGTERM to the group, and SIGKILL after the grace period.
pub(crate) struct ProcessGroupGuard {
    child: Option<Child>,
    group: ProcessGroup,
    grace: Duration,
    watched: Option<WatchedGroup>,
}

impl ProcessGroupGuard {
    pub(crate) fn new(child: Child, grace: Duration) -> Self {
        let group = ProcessGroup(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        Self { child: Some(child), group, grace, watched: None }
    }

    fn watched(mut self, watchdog: &Watchdog) -> Self {
        self.watched = self.group.0.map(|leader| watchdog.register(leader));
        self
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.group.send(Signal::TERM);
        let kill = KillOnDrop(self.group);
        let (grace, watched) = (self.grace, self.watched.take());
        let terminate = async move {
            let _ = timeout(grace, child.wait()).await;
            drop(kill);
            let _ = child.wait().await;
            drop(watched);
        };
        // Without a runtime, or during its shutdown, the future is dropped, which sends SIGKILL immediately.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(terminate);
        }
    }
}

/// A process group, named by its leader.
#[derive(Debug, Clone, Copy)]
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Sends a signal and returns whether a process received it.
    fn send(self, signal: Signal) -> bool {
        let Some(leader) = self.0 else { return false };
        rustix::process::kill_process_group(leader, signal).is_ok()
            // The sandbox helper creates the group itself, shortly after its start.
            || (signal == Signal::KILL && rustix::process::kill_process(leader, signal).is_ok())
    }
}

/// Sends SIGKILL to the group when dropped.
struct KillOnDrop(ProcessGroup);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.send(Signal::KILL);
    }
}
