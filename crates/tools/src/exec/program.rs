//! A program in the sandbox, from its command line to its supervisor.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
};

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::{
    process::ProcessGroupGuard,
    sandbox::{Sandbox, SandboxedCommand, channel},
};

/// A program that is not started yet.
pub(crate) struct SandboxedProgram {
    line: Command,
    socket: UnixStream,
    command: SandboxedCommand,
}

/// The pipes of a started program, as far as there are any.
pub(crate) struct ProgramPipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// The standard input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramInput {
    Empty,
    Pipe,
}

impl SandboxedProgram {
    /// `None` if commands are not confined on this system.
    pub(crate) fn new(sandbox: &Sandbox, command: SandboxedCommand) -> io::Result<Option<Self>> {
        let (socket, theirs) = UnixStream::pair()?;
        let line = sandbox.supervisor(theirs).map(Command::from);
        Ok(line.map(|line| Self { line, socket, command }))
    }

    /// The command line, for the environment and the output.
    pub(crate) fn line(&mut self) -> &mut Command {
        &mut self.line
    }

    /// Starts the program, with an empty input or a pipe.
    pub(crate) fn start(
        mut self,
        sandbox: &Sandbox,
        input: ProgramInput,
    ) -> io::Result<(ProgramPipes, ProcessGroupGuard)> {
        sandbox.set_env(&mut self.line, self.command.profile);
        let mut child = self.line.spawn()?;
        // The command line holds the other end of the output.
        drop(self.line);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let grace = self.command.grace;
        let launch = sandbox.launch(self.command);
        let input = (input == ProgramInput::Pipe).then(io::pipe).transpose()?;
        let files: Vec<_> = input.iter().map(|(reader, _)| reader.as_fd()).collect();
        channel::send(&self.socket, &launch, &files)?;
        let stdin = input
            .map(|(_, writer)| ChildStdin::from_std(std::os::fd::OwnedFd::from(writer).into()))
            .transpose()?;
        let guard = ProcessGroupGuard::supervised(child, self.socket, grace);
        Ok((ProgramPipes { stdin, stdout, stderr }, guard))
    }
}
