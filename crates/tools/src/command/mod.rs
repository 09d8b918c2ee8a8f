//! Configured commands as tools: a program that reads its arguments as JSON from standard input and writes its result, a JSON
//! object or text, to standard output.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    OutputStore, SandboxProfile, Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError,
    exec::{
        EnvVars, LazySandbox, Watchdog,
        process::RunningCommand,
        program::{ProgramInput, SandboxedProgram},
        sandbox::{NOT_CONFINED, SandboxedCommand},
        stderr_tail::StderrTail,
    },
    outputs::{CapturedOutput, OutputCapture},
};

/// The variable with the idempotency key of the call.
const CALL_ID: &str = "LANGO_CALL_ID";

/// How long to wait for the end of standard error after the exit.
const STDERR_TIME: Duration = Duration::from_millis(200);

/// The configuration of one command.
#[derive(Clone)]
pub struct CommandConfig {
    pub spec: Spec,
    /// The program and its arguments. They are not interpreted by a shell.
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    /// Timeout of a call.
    pub time: Duration,
    /// Whether it runs in the sandbox, with the profile `workspace`.
    pub sandboxed: bool,
}

/// What all configured commands share.
#[derive(Debug, Clone)]
pub struct CommandEnv {
    pub env: EnvVars,
    pub outputs: OutputStore,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub watchdog: Watchdog,
    pub sandbox: LazySandbox,
}

/// A tool that runs a configured command.
pub struct CommandTool {
    config: CommandConfig,
    env: CommandEnv,
}

impl CommandTool {
    pub fn new(config: CommandConfig, env: CommandEnv) -> Self {
        Self { config, env }
    }

    async fn run(
        &self,
        id: &str,
        args: &Map<String, Value>,
        host: &dyn ToolHost,
    ) -> Result<Value, ToolsError> {
        let (mut running, stdin, stderr) =
            if self.config.sandboxed { self.start_sandboxed(id).await? } else { self.start(id)? };
        let mut capture = OutputCapture::new(self.env.outputs.clone());
        let mut sink = |chunk: &[u8]| drop(capture.push(chunk));
        let input = serde_json::to_vec(args).map_err(|error| ToolsError::Failed(error.to_string()))?;
        // A task of its own, because a command need not read its arguments.
        tokio::spawn(write_stdin(stdin, input));
        let exit = tokio::select! {
            biased;
            () = host.cancelled() => return Err(ToolsError::Cancelled),
            exit = running.wait(&mut sink) => match exit.failure {
                Some(why) => return Err(self.error(&why)),
                None => Some(exit.status),
            },
            () = tokio::time::sleep(self.config.time) => {
                running.terminate(&mut sink).await;
                None
            }
        };
        let output = capture.finish();
        match exit {
            Some(Some(status)) if status.success() => Ok(result(output)),
            Some(status) => Err(self.failure(&describe_status(status), stderr, &output).await),
            None => {
                let timeout = format!("was terminated after {} s", self.config.time.as_secs_f64());
                Err(self.failure(&timeout, stderr, &output).await)
            }
        }
    }

    fn start(&self, id: &str) -> Result<(RunningCommand, Option<ChildStdin>, StderrReader), ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        self.env.env.create_tmp_dir()?;
        let (output, writer) = io::pipe().map_err(fail)?;
        let (program, args) = self.config.argv.split_first().ok_or_else(|| self.error("has no command"))?;
        let mut command = Command::new(program);
        self.env.env.apply(&mut command);
        command
            .args(args)
            .envs(self.config.env.iter().map(|(name, value)| (name, value)))
            .env(CALL_ID, id)
            .current_dir(&self.config.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(Stdio::piped());
        let (running, pipes) = RunningCommand::spawn(command, output, (self.env.grace, &self.env.watchdog))
            .map_err(|error| self.error(&format!("cannot run `{program}`: {error}")))?;
        let tail = StderrTail::default();
        let reader = pipes.stderr.map(|stderr| tokio::spawn(tail.clone().read_from(stderr)));
        Ok((running, pipes.stdin, StderrReader { tail, reader }))
    }

    async fn start_sandboxed(
        &self,
        id: &str,
    ) -> Result<(RunningCommand, Option<ChildStdin>, StderrReader), ToolsError> {
        let fail = |source: io::Error| self.error(&format!("could not be started: {source}"));
        let sandbox = self.env.sandbox.built().await;
        let command = SandboxedCommand {
            profile: SandboxProfile::Workspace,
            granted: Vec::new(),
            argv: self.config.argv.clone(),
            directory: self.config.cwd.clone(),
            grace: self.env.grace,
        };
        let program = SandboxedProgram::new(sandbox, command).map_err(fail)?;
        let mut program = program.ok_or_else(|| self.error(NOT_CONFINED))?;
        let (output, writer) = io::pipe().map_err(fail)?;
        self.env.env.apply(program.line());
        let variables = self.config.env.iter().map(|(name, value)| (name, value));
        program.line().envs(variables).env(CALL_ID, id).stdout(writer).stderr(Stdio::piped());
        let (pipes, guard) = program.start(sandbox, ProgramInput::Pipe).map_err(fail)?;
        let tail = StderrTail::default();
        let reader = pipes.stderr.map(|stderr| tokio::spawn(tail.clone().read_from(stderr)));
        let running = RunningCommand::with_output(guard, output).map_err(fail)?;
        Ok((running, pipes.stdin, StderrReader { tail, reader }))
    }

    /// An error whose text begins with the name of the tool.
    fn error(&self, text: &str) -> ToolsError {
        ToolsError::Failed(format!("`{}` {text}", self.config.spec.name))
    }

    /// The error of a failed command, with its standard error or else its output.
    async fn failure(&self, how: &str, stderr: StderrReader, output: &CapturedOutput) -> ToolsError {
        let output = Some(output.text.trim().to_owned()).filter(|text| !text.is_empty());
        let details = stderr.finish().await.or(output).map(|text| format!(": {text}")).unwrap_or_default();
        self.error(&format!("{how}{details}"))
    }
}

/// The tail of standard error, and the task that reads it.
struct StderrReader {
    tail: StderrTail,
    reader: Option<JoinHandle<()>>,
}

impl StderrReader {
    async fn finish(self) -> Option<String> {
        if let Some(reader) = self.reader {
            let _ = timeout(STDERR_TIME, reader).await;
        }
        self.tail.text()
    }
}

async fn write_stdin(stdin: Option<ChildStdin>, bytes: Vec<u8>) {
    let Some(mut stdin) = stdin else { return };
    let _ = stdin.write_all(&bytes).await;
}

/// A JSON object is the result itself; any other output is returned as bounded text.
fn result(output: CapturedOutput) -> Value {
    let is_complete = output.handle.is_none() && output.binary.is_none();
    if let Some(Ok(Value::Object(object))) = is_complete.then(|| serde_json::from_str(&output.text)) {
        return object.into();
    }
    let mut answer = Map::new();
    output.write_to(&mut answer);
    answer.into()
}

fn describe_status(status: Option<ExitStatus>) -> String {
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal());
    match (code, signal) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &Spec {
        &self.config.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(
            async move { self.run(&request.id, &request.args, &*request.host).await.map(ToolReply::Done) },
        )
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args = serde_json::to_string_pretty(args).ok()?;
        Some(format!("{}\n{args}", self.config.argv.join(" ")))
    }
}

impl std::fmt::Debug for CommandTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandTool").field("spec", &self.config.spec).finish_non_exhaustive()
    }
}

/// Variables are not printed, because their values may be secrets.
impl std::fmt::Debug for CommandConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandConfig").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
