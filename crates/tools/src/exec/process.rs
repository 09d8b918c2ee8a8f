//! A command as a process group: spawned with its output in one pipe, and terminated as a whole.

use std::{
    io::{self, PipeReader, Write},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
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
    program::{ProgramInput, SandboxedProgram},
    sandbox::{
        SandboxedCommand, channel,
        messages::{Control, Exceeded, SandboxOutcome},
    },
    watchdog::{Watchdog, WatchedGroup},
};
use crate::{SandboxAccess, ToolsError};

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

/// The gate in shell: the script starts when a line arrives on standard input, and not at all if the input ends first.
const GATE: &str = r#"read -r open && exec /bin/sh -c "$1" < /dev/null"#;

/// A script to be run.
pub(super) struct ScriptCall<'a> {
    pub(super) text: &'a str,
    pub(super) directory: &'a Path,
    pub(super) access: &'a SandboxAccess,
}

/// A running command. Dropping it terminates its processes.
pub(crate) struct RunningCommand {
    guard: ProcessGroupGuard,
    output: Receiver,
    buffer: Vec<u8>,
}

/// The exit of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandExit {
    pub(crate) status: Option<ExitStatus>,
    /// Processes were still running after the exit, and were terminated.
    pub(crate) left_behind: bool,
    /// The limits that the command reached.
    pub(crate) exceeded: Vec<Exceeded>,
    /// Protected files that the command created; they were renamed.
    pub(crate) quarantined: Vec<PathBuf>,
    /// Why the command was not started.
    pub(crate) failure: Option<String>,
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
        if let Some(failure) = &self.failure {
            answer.insert("error".to_owned(), failure.clone().into());
        }
    }
}

impl RunningCommand {
    /// Starts a script in the sandbox.
    pub(super) fn start(context: &ExecToolContext, script: &ScriptCall<'_>) -> Result<Self, ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let (reader, writer) = io::pipe().map_err(fail)?;
        let sandbox = context.sandbox.get();
        let command = SandboxedCommand {
            profile: script.access.profile,
            granted: script.access.protected.clone(),
            argv: ["/bin/sh", "-c", script.text].map(str::to_owned).to_vec(),
            directory: script.directory.to_owned(),
            grace: context.limits.grace,
        };
        let Some(mut program) = SandboxedProgram::new(sandbox, command).map_err(fail)? else {
            return Self::start_unconfined(context, script);
        };
        context.env.apply(program.line());
        program.line().envs(GIT).stdout(writer.try_clone().map_err(fail)?).stderr(writer);
        let (_, guard) = program.start(sandbox, ProgramInput::Empty).map_err(fail)?;
        Self::with_output(guard, reader).map_err(fail)
    }

    /// A command that writes to `output`.
    pub(crate) fn with_output(guard: ProcessGroupGuard, output: PipeReader) -> io::Result<Self> {
        let output = Receiver::from_owned_fd(OwnedFd::from(output))?;
        Ok(Self { guard, output, buffer: vec![0; 64 * 1024] })
    }

    /// Starts a script without a sandbox. It waits at the gate until the watchdog knows its process group.
    fn start_unconfined(context: &ExecToolContext, script: &ScriptCall<'_>) -> Result<Self, ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let (reader, writer) = io::pipe().map_err(fail)?;
        let (gate, opener) = io::pipe().map_err(fail)?;
        let mut command = Command::new("/bin/sh");
        context.env.apply(&mut command);
        command
            .envs(GIT)
            .args(["-c", GATE, "sh", script.text])
            .current_dir(script.directory)
            .stdin(gate)
            .stdout(writer.try_clone().map_err(fail)?)
            .stderr(writer)
            .process_group(0);
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
        Ok((Self::with_output(group, output).map_err(fail)?, pipes))
    }

    /// Reads output until the command exits. Cancel safe: all output that was read is in `sink`.
    pub(crate) async fn wait(&mut self, sink: &mut OutputSink<'_>) -> CommandExit {
        let status = self.pump(sink).await;
        if let Some(exit) = self.guard.processes.outcome() {
            let _ = timeout(DRAIN_TIME, self.drain(sink)).await;
            self.guard.child = None;
            return exit;
        }
        let left_behind = self.guard.processes.send(Signal::TERM);
        if left_behind {
            let _ = timeout(self.guard.grace, self.drain(sink)).await;
            self.guard.processes.send(Signal::KILL);
        }
        let _ = timeout(DRAIN_TIME, self.drain(sink)).await;
        self.guard.child = None;
        CommandExit { status, left_behind, ..CommandExit::default() }
    }

    /// Sends SIGTERM to the processes, and SIGKILL after the grace period.
    pub(crate) async fn terminate(&mut self, sink: &mut OutputSink<'_>) -> CommandExit {
        self.guard.processes.send(Signal::TERM);
        let status = timeout(self.guard.grace, self.pump(sink)).await.unwrap_or_default();
        self.guard.processes.send(Signal::KILL);
        let status = match status {
            Some(status) => Some(status),
            None => self.pump(sink).await,
        };
        let _ = timeout(DRAIN_TIME, self.drain(sink)).await;
        self.guard.child = None;
        let exit = self.guard.processes.outcome();
        CommandExit { left_behind: false, ..exit.unwrap_or(CommandExit { status, ..CommandExit::default() }) }
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

/// A running child. Dropping it sends SIGTERM to its processes, and SIGKILL after the grace period.
pub(crate) struct ProcessGroupGuard {
    child: Option<Child>,
    processes: Processes,
    grace: Duration,
    watched: Option<WatchedGroup>,
}

impl ProcessGroupGuard {
    /// A child that is the leader of a process group.
    pub(crate) fn new(child: Child, grace: Duration) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child: Some(child), processes: Processes::Group(leader), grace, watched: None }
    }

    /// A child that is the supervisor of a sandboxed command. Without `socket` it kills the command.
    pub(crate) fn supervised(child: Child, socket: UnixStream, grace: Duration) -> Self {
        Self { child: Some(child), processes: Processes::Sandbox(socket), grace, watched: None }
    }

    /// Why a sandboxed command was not started, once its supervisor has ended. `None` if it was, and without a sandbox.
    pub(crate) async fn failure(&mut self) -> Option<String> {
        if !matches!(self.processes, Processes::Sandbox(_)) {
            return None;
        }
        let _ = timeout(self.grace, self.child.as_mut()?.wait()).await.ok()?;
        self.processes.outcome()?.failure
    }

    fn watched(mut self, watchdog: &Watchdog) -> Self {
        if let Processes::Group(Some(leader)) = self.processes {
            self.watched = Some(watchdog.register(leader));
        }
        self
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.processes.send(Signal::TERM);
        let kill = KillOnDrop(std::mem::replace(&mut self.processes, Processes::Group(None)));
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

/// The processes of a command.
#[derive(Debug)]
enum Processes {
    /// A process group, named by its leader.
    Group(Option<Pid>),
    /// All processes of a sandbox, by the socket to its supervisor.
    Sandbox(UnixStream),
}

impl Processes {
    /// Sends a signal and returns whether a process received it.
    fn send(&self, signal: Signal) -> bool {
        match self {
            Self::Group(Some(leader)) => rustix::process::kill_process_group(*leader, signal).is_ok(),
            Self::Group(None) => false,
            Self::Sandbox(socket) if signal == Signal::KILL => socket.shutdown(Shutdown::Write).is_ok(),
            Self::Sandbox(socket) => channel::send(socket, &Control::Terminate, &[]).is_ok(),
        }
    }

    /// How a sandboxed command ended, after the exit of its supervisor.
    fn outcome(&self) -> Option<CommandExit> {
        let Self::Sandbox(socket) = self else { return None };
        let outcome = channel::receive::<SandboxOutcome>(socket).ok().flatten().map(|(outcome, _)| outcome);
        Some(match outcome {
            Some(SandboxOutcome::Exited(end)) => CommandExit {
                status: end.signal.or(end.code.map(|code| code << 8)).map(ExitStatus::from_raw),
                left_behind: end.left_behind,
                exceeded: end.exceeded,
                quarantined: end.quarantined,
                failure: None,
            },
            Some(SandboxOutcome::Failed(why)) => {
                let failure =
                    Some(format!("the sandbox could not be set up: {why}; `lango doctor` tests it"));
                CommandExit { failure, ..CommandExit::default() }
            }
            Some(SandboxOutcome::CannotRun(why)) => {
                CommandExit { failure: Some(why), ..CommandExit::default() }
            }
            None => CommandExit {
                failure: Some("the sandbox was ended by another program".to_owned()),
                ..CommandExit::default()
            },
        })
    }
}

/// Sends SIGKILL to the processes when dropped.
struct KillOnDrop(Processes);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.send(Signal::KILL);
    }
}
