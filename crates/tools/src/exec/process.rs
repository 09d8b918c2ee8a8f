//! A process group: started with its output in one pipe, read while it runs, ended as a whole.

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
    Shell,
    watchdog::{Watchdog, Watched},
};
use crate::ToolsError;

/// How long output is waited for that comes after the end, from a process that left the group.
const LATE: Duration = Duration::from_millis(200);

/// Git runs what a repository's configuration names. A directory that only looks like a bare repository may come with any
/// project, so none is taken for one.
const GIT: [(&str, &str); 6] = [
    // Who only looks writes no index, which would start a hook.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

/// A command that runs. Dropped, it is ended with all that it started.
pub(crate) struct Running {
    leash: Leash,
    output: Receiver,
    buffer: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: Option<ExitStatus>,
    /// Processes were still running when the command itself was done; they were ended.
    pub(crate) left_behind: bool,
}

impl Ended {
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
            let note = "processes that it left in the background were ended; exec_start keeps them running";
            answer.insert("note".to_owned(), note.into());
        }
    }
}

impl Running {
    pub(super) fn start(shell: &Shell, script: &str, directory: &Path) -> Result<Self, ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let (reader, writer) = io::pipe().map_err(fail)?;
        let (gate, opener) = io::pipe().map_err(fail)?;
        let line = shell.cage.line(script);
        let mut command = Command::new(&line[0]);
        shell.environment.give(&mut command);
        command.envs(GIT);
        command
            .args(&line[1..])
            .current_dir(directory)
            .stdin(gate)
            .stdout(writer.try_clone().map_err(fail)?)
            .stderr(writer);
        if !shell.cage.makes_its_own_group() {
            command.process_group(0);
        }
        let (running, _) = Self::of(command, reader, (shell.limits.grace, &shell.watchdog))?;
        // It begins now that it is watched. One that is gone already needs no leave.
        let _ = (&opener).write_all(b"\n");
        Ok(running)
    }

    /// Starts what was made ready to write to `output`, and gives its other pipes.
    pub(crate) fn of(
        mut command: Command,
        output: PipeReader,
        (grace, watchdog): (Duration, &Watchdog),
    ) -> Result<(Self, Pipes), ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        let mut child = command.spawn().map_err(fail)?;
        // The command still holds the writing end; without it the pipe ends with the last process.
        drop(command);
        let pipes = Pipes { input: child.stdin.take(), errors: child.stderr.take() };
        let leash = Leash::new(child, grace).watched(watchdog);
        let output = Receiver::from_owned_fd(OwnedFd::from(output)).map_err(fail)?;
        Ok((Self { leash, output, buffer: vec![0; 64 * 1024] }, pipes))
    }

    /// Reads until the command is done. Cancel safe: what was read is in `sink`.
    pub(crate) async fn finish(&mut self, sink: &mut Sink<'_>) -> Ended {
        let status = self.pump(sink).await;
        let left_behind = self.leash.group.send(Signal::TERM);
        if left_behind {
            let _ = timeout(self.leash.grace, self.drain(sink)).await;
            self.leash.group.send(Signal::KILL);
        }
        let _ = timeout(LATE, self.drain(sink)).await;
        self.leash.child = None;
        Ended { status, left_behind }
    }

    /// Asks the group to end, then makes it.
    pub(crate) async fn end(&mut self, sink: &mut Sink<'_>) -> Ended {
        self.leash.group.send(Signal::TERM);
        let status = timeout(self.leash.grace, self.pump(sink)).await.unwrap_or_default();
        self.leash.group.send(Signal::KILL);
        let status = match status {
            Some(status) => Some(status),
            None => self.pump(sink).await,
        };
        let _ = timeout(LATE, self.drain(sink)).await;
        self.leash.child = None;
        Ended { status, left_behind: false }
    }

    /// Reads while the command runs, and says how it ended.
    async fn pump(&mut self, sink: &mut Sink<'_>) -> Option<ExitStatus> {
        let child = self.leash.child.as_mut()?;
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

    async fn drain(&mut self, sink: &mut Sink<'_>) {
        while let Ok(length) = self.output.read(&mut self.buffer).await {
            if length == 0 {
                return;
            }
            sink(&self.buffer[..length]);
        }
    }
}

/// Where output goes as it comes.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) + Send + 'a;

/// What a command can be told, and what it says beside its output.
pub(crate) struct Pipes {
    pub(crate) input: Option<ChildStdin>,
    pub(crate) errors: Option<ChildStderr>,
}

/// A process that leads its group. Dropped, the whole group is asked to end, and made to after a while.
pub(crate) struct Leash {
    child: Option<Child>,
    group: Group,
    grace: Duration,
    watched: Option<Watched>,
}

impl Leash {
    pub(crate) fn new(child: Child, grace: Duration) -> Self {
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        Self { child: Some(child), group, grace, watched: None }
    }

    fn watched(mut self, watchdog: &Watchdog) -> Self {
        self.watched = self.group.0.map(|leader| watchdog.watch(leader));
        self
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.group.send(Signal::TERM);
        let force = ForceOnDrop(self.group);
        let (grace, watched) = (self.grace, self.watched.take());
        let end = async move {
            let _ = timeout(grace, child.wait()).await;
            drop(force);
            let _ = child.wait().await;
            drop(watched);
        };
        // Without a runtime, or with one that is shutting down, this future is dropped: the end by force comes at once.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(end);
        }
    }
}

/// The process group of a command, whose leader it is.
#[derive(Debug, Clone, Copy)]
struct Group(Option<Pid>);

impl Group {
    /// Whether there was anyone to get the signal.
    fn send(self, signal: Signal) -> bool {
        let Some(leader) = self.0 else { return false };
        rustix::process::kill_process_group(leader, signal).is_ok()
            // A helper makes the group itself, a moment after its start.
            || (signal == Signal::KILL && rustix::process::kill_process(leader, signal).is_ok())
    }
}

struct ForceOnDrop(Group);

impl Drop for ForceOnDrop {
    fn drop(&mut self) {
        self.0.send(Signal::KILL);
    }
}
