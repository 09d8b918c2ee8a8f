//! A process group: started with its output in one pipe, read while it runs, ended as a whole.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use serde_json::{Map, Value};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    runtime::Handle,
    time::timeout,
};

use super::Shell;
use crate::Error;

/// How long output is waited for that comes after the end, from a process that left the group.
const LATE: Duration = Duration::from_millis(200);

/// A command that runs. Dropped, it is ended with all that it started.
pub(super) struct Running {
    child: Option<Child>,
    group: Group,
    output: Receiver,
    buffer: Vec<u8>,
    grace: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) status: Option<ExitStatus>,
    /// Processes were still running when the command itself was done; they were ended.
    pub(super) left_behind: bool,
}

impl Ended {
    pub(super) fn tell(&self, answer: &mut Map<String, Value>) {
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
    pub(super) fn start(shell: &Shell, script: &str, directory: &Path) -> Result<Self, Error> {
        let fail = |source: io::Error| Error::Failed(format!("the command could not be started: {source}"));
        let (reader, writer) = io::pipe().map_err(fail)?;
        let line = shell.cage.line(script);
        let environment = &shell.environment;
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(directory)
            .env_clear()
            .env("PATH", &environment.path)
            .env("HOME", &environment.home)
            .env("LANG", &environment.lang)
            .env("TMPDIR", &environment.tmp)
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(fail)?)
            .stderr(writer);
        if !shell.cage.makes_its_own_group() {
            command.process_group(0);
        }
        let child = command.spawn().map_err(fail)?;
        // The command still holds the writing end; without it the pipe ends with the last process.
        drop(command);
        let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(fail)?;
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        Ok(Self { child: Some(child), group, output, buffer: vec![0; 64 * 1024], grace: shell.limits.grace })
    }

    /// Reads until the command is done. Cancel safe: what was read is in `sink`.
    pub(super) async fn finish(&mut self, sink: &mut Sink<'_>) -> Ended {
        let status = self.pump(sink).await;
        let left_behind = self.group.send(Signal::TERM);
        if left_behind {
            let _ = timeout(self.grace, self.drain(sink)).await;
            self.group.send(Signal::KILL);
        }
        let _ = timeout(LATE, self.drain(sink)).await;
        self.child = None;
        Ended { status, left_behind }
    }

    /// Asks the group to end, then makes it.
    pub(super) async fn end(&mut self, sink: &mut Sink<'_>) -> Ended {
        self.group.send(Signal::TERM);
        let status = timeout(self.grace, self.pump(sink)).await.unwrap_or_default();
        self.group.send(Signal::KILL);
        let status = match status {
            Some(status) => Some(status),
            None => self.pump(sink).await,
        };
        let _ = timeout(LATE, self.drain(sink)).await;
        self.child = None;
        Ended { status, left_behind: false }
    }

    /// Reads while the command runs, and says how it ended.
    async fn pump(&mut self, sink: &mut Sink<'_>) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
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
pub(super) type Sink<'a> = dyn FnMut(&[u8]) + Send + 'a;

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.group.send(Signal::TERM);
        let force = ForceOnDrop(self.group);
        let grace = self.grace;
        let end = async move {
            let _ = timeout(grace, child.wait()).await;
            drop(force);
            let _ = child.wait().await;
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
