//! `exec`: runs a command in the foreground.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ExecToolContext, notes,
    process::{CommandExit, RunningCommand, ScriptCall},
};
use crate::{
    Effect, Safety, SandboxAccess, Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError, args, media,
    outputs::{OutputCapture, to_plain_text},
};

pub(super) const NAME: &str = "exec";
/// Maximum size of one progress report.
const PROGRESS_BYTES: usize = 2 * 1024;

const DESCRIPTION: &str = "Runs a shell command and returns its output, including standard error. It can write where \
     write_file can and in $TMPDIR, and has no network unless the configuration allows it. Background processes are \
     terminated at its end.";

/// The tool `exec`.
#[derive(Debug)]
pub struct Exec {
    spec: Spec,
    context: Arc<ExecToolContext>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecArgs {
    command: String,
    workdir: Option<String>,
    #[serde(default, deserialize_with = "args::integer")]
    timeout_s: Option<usize>,
    /// The policy asks for these paths. What a person granted is in [`SandboxAccess`].
    #[serde(default, rename = "protected")]
    _protected: Vec<String>,
}

/// The parameter `protected`, in the JSON Schema of the tools that run commands.
pub(super) fn protected_parameter() -> Value {
    json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "Protected paths that the command must write, such as .git/config or .git/hooks. A person decides.",
    })
}

impl Exec {
    pub fn new(context: Arc<ExecToolContext>) -> Self {
        let limits = &context.limits;
        let (time, most) = (limits.time.as_secs(), limits.max_time.as_secs());
        let parameters = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "Run by sh -c, without input."},
                "workdir": {"type": "string", "description": format!("{} Default: the working directory.", context.roots.path_syntax())},
                "protected": protected_parameter(),
                "timeout_s": {"type": "integer", "minimum": 1, "maximum": most, "description": format!("Seconds until it is terminated. Default: {time}.")},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        let spec = Spec::new(NAME, DESCRIPTION, parameters, Safety::Execute, Effect::Once);
        Self { spec, context }
    }

    async fn run(
        &self,
        args: ExecArgs,
        access: SandboxAccess,
        host: &dyn ToolHost,
    ) -> Result<Value, ToolsError> {
        super::prepare(&self.context).await?;
        let directory = self.context.resolve_workdir(args.workdir.as_deref())?;
        let limit = timeout(&self.context, args.timeout_s);
        let started = Instant::now();
        let script = ScriptCall { text: &args.command, directory: &directory, access: &access };
        let mut running = RunningCommand::start(&self.context, &script)?;
        let mut capture = OutputCapture::new(self.context.outputs.clone());
        let mut sink = |chunk: &[u8]| report_progress(host, &capture.push(chunk));
        let (exit, in_time) = tokio::select! {
            biased;
            () = host.cancelled() => return Err(ToolsError::Cancelled),
            exit = running.wait(&mut sink) => (exit, true),
            () = tokio::time::sleep(limit) => (running.terminate(&mut sink).await, false),
        };
        if let Some(failure) = &exit.failure {
            return Err(ToolsError::Failed(failure.clone()));
        }
        let mut answer = exit_json(&exit, started.elapsed());
        if !in_time {
            let seconds = limit.as_secs_f64();
            answer.insert("timed_out".to_owned(), format!("terminated after {seconds} s").into());
        }
        let output = capture.finish();
        if let Some(note) = notes::note(&exit, &output.text, access.profile) {
            answer.insert("note".to_owned(), note.into());
        }
        output.write_to(&mut answer);
        Ok(answer.into())
    }
}

fn timeout(context: &ExecToolContext, requested: Option<usize>) -> Duration {
    let requested = requested.map(|seconds| Duration::from_secs(seconds.max(1) as u64));
    requested.unwrap_or(context.limits.time).min(context.limits.max_time)
}

fn exit_json(exit: &CommandExit, duration: Duration) -> Map<String, Value> {
    let mut answer = Map::new();
    exit.write_to(&mut answer);
    answer.insert("duration_ms".to_owned(), u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into());
    answer
}

/// Reports the end of a chunk of output as progress.
fn report_progress(host: &dyn ToolHost, chunk: &[u8]) {
    let end = &chunk[chunk.len().saturating_sub(PROGRESS_BYTES)..];
    if media::binary_kind(end).is_none() {
        host.progress(&to_plain_text(end));
    }
}

impl Tool for Exec {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args = args::parse(NAME, request.args)?;
            self.run(args, request.sandbox, &*request.host).await.map(ToolReply::Done)
        })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        preview(args)
    }
}

/// The command, with its working directory if one is given.
pub(super) fn preview(args: &Map<String, Value>) -> Option<String> {
    let command = args.get("command")?.as_str()?;
    let workdir = args.get("workdir").and_then(Value::as_str).map(|dir| format!("in {dir}: "));
    Some(format!("{}{command}", workdir.unwrap_or_default()))
}
