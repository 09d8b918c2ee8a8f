//! A tool of one's own: a command that reads its arguments as JSON from standard input and writes its result to standard
//! output, as a JSON object or as text.

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
    OutputStore, Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError,
    exec::{Environment, Watchdog, process::Running, words::LastWords},
    outputs::{CapturedOutput, OutputCapture},
};

/// Its key, the same when an idempotent call is made again after a crash.
const CALL_ID: &str = "LANGO_CALL_ID";

/// How long its last words are waited for after its end.
const LATE: Duration = Duration::from_millis(200);

/// A command, as it was configured.
#[derive(Clone)]
pub struct CommandConfig {
    pub spec: Spec,
    /// The program and its arguments; no shell is involved.
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    pub time: Duration,
}

/// What commands share.
#[derive(Debug, Clone)]
pub struct Ground {
    pub environment: Environment,
    pub outputs: OutputStore,
    /// Between the request to end and the end by force.
    pub grace: Duration,
    pub watchdog: Watchdog,
}

pub struct OwnCommand {
    config: CommandConfig,
    ground: Ground,
}

impl OwnCommand {
    pub fn new(config: CommandConfig, ground: Ground) -> Self {
        Self { config, ground }
    }

    async fn run(
        &self,
        id: &str,
        args: &Map<String, Value>,
        host: &dyn ToolHost,
    ) -> Result<Value, ToolsError> {
        let (mut running, input, words) = self.start(id)?;
        let mut capture = OutputCapture::new(self.ground.outputs.clone());
        let mut sink = |piece: &[u8]| drop(capture.push(piece));
        let given = serde_json::to_vec(args).map_err(|error| ToolsError::Failed(error.to_string()))?;
        // A command that reads no arguments is no mistake.
        tokio::spawn(give(input, given));
        let ended = tokio::select! {
            biased;
            () = host.cancelled() => return Err(ToolsError::Cancelled),
            ended = running.finish(&mut sink) => Some(ended.status),
            () = tokio::time::sleep(self.config.time) => {
                running.end(&mut sink).await;
                None
            }
        };
        let shown = capture.finish();
        match ended {
            Some(Some(status)) if status.success() => Ok(result(shown)),
            Some(status) => Err(self.failed(&how(status), words, &shown).await),
            None => {
                let limit = format!("was ended after {} s", self.config.time.as_secs_f64());
                Err(self.failed(&limit, words, &shown).await)
            }
        }
    }

    fn start(&self, id: &str) -> Result<(Running, Option<ChildStdin>, Words), ToolsError> {
        let fail =
            |source: io::Error| ToolsError::Failed(format!("the command could not be started: {source}"));
        self.ground.environment.make_tmp()?;
        let (output, writer) = io::pipe().map_err(fail)?;
        let (program, args) = self.config.argv.split_first().ok_or_else(|| self.named("has no command"))?;
        let mut command = Command::new(program);
        self.ground.environment.give(&mut command);
        command
            .args(args)
            .envs(self.config.env.iter().map(|(name, value)| (name, value)))
            .env(CALL_ID, id)
            .current_dir(&self.config.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(Stdio::piped());
        let (running, pipes) = Running::of(command, output, (self.ground.grace, &self.ground.watchdog))
            .map_err(|error| self.named(&format!("runs `{program}`: {error}")))?;
        let words = LastWords::default();
        let listening = pipes.errors.map(|errors| tokio::spawn(words.clone().listen(errors)));
        Ok((running, pipes.input, Words { words, listening }))
    }

    fn named(&self, what: &str) -> ToolsError {
        ToolsError::Failed(format!("`{}` {what}", self.config.spec.name))
    }

    /// What it said to standard error tells the most, and else its output does.
    async fn failed(&self, how: &str, words: Words, shown: &CapturedOutput) -> ToolsError {
        let output = Some(shown.text.trim().to_owned()).filter(|text| !text.is_empty());
        let said = words.all().await.or(output).map(|said| format!(": {said}")).unwrap_or_default();
        self.named(&format!("{how}{said}"))
    }
}

/// What it says to standard error, while somebody listens.
struct Words {
    words: LastWords,
    listening: Option<JoinHandle<()>>,
}

impl Words {
    async fn all(self) -> Option<String> {
        if let Some(listening) = self.listening {
            let _ = timeout(LATE, listening).await;
        }
        self.words.text()
    }
}

async fn give(input: Option<ChildStdin>, bytes: Vec<u8>) {
    let Some(mut input) = input else { return };
    let _ = input.write_all(&bytes).await;
}

/// An object is a result as it is; all else is an output, with its bound.
fn result(shown: CapturedOutput) -> Value {
    let whole = shown.handle.is_none() && shown.binary.is_none();
    if let Some(Ok(Value::Object(object))) = whole.then(|| serde_json::from_str(&shown.text)) {
        return object.into();
    }
    let mut answer = Map::new();
    shown.write_to(&mut answer);
    answer.into()
}

fn how(status: Option<ExitStatus>) -> String {
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal());
    match (code, signal) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended, nobody knows how".to_owned(),
    }
}

impl Tool for OwnCommand {
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

impl std::fmt::Debug for OwnCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnCommand").field("spec", &self.config.spec).finish_non_exhaustive()
    }
}

/// Values of variables may be secrets: they are not printed.
impl std::fmt::Debug for CommandConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandConfig").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
