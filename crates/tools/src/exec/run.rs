//! `exec`: one command, waited for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Shell,
    process::{Ended, Running},
};
use crate::{
    Effect, Safety, Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError, args, media,
    outputs::{OutputCapture, to_plain_text},
};

pub(super) const NAME: &str = "exec";
/// Those who watch are told no more than this much at a time.
const PROGRESS_BYTES: usize = 2 * 1024;

const DESCRIPTION: &str = "Runs a shell command and gives its output, standard error included. It can write where \
     write_file can and in $TMPDIR, and has no network unless the configuration gives it one. What it leaves in the \
     background is ended.";

/// Runs shell commands.
#[derive(Debug)]
pub struct Exec {
    spec: Spec,
    shell: Arc<Shell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    workdir: Option<String>,
    #[serde(default, deserialize_with = "args::integer")]
    timeout_s: Option<usize>,
}

impl Exec {
    pub fn new(shell: Arc<Shell>) -> Self {
        let limits = &shell.limits;
        let (time, most) = (limits.time.as_secs(), limits.max_time.as_secs());
        let parameters = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "Run by sh -c, without input."},
                "workdir": {"type": "string", "description": format!("{} Default: the working directory.", shell.roots.path_syntax())},
                "timeout_s": {"type": "integer", "minimum": 1, "maximum": most, "description": format!("Seconds until it is ended. Default: {time}.")},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        let spec = Spec::new(NAME, DESCRIPTION, parameters, Safety::Execute, Effect::Once);
        Self { spec, shell }
    }

    async fn run(&self, args: Args, host: &dyn ToolHost) -> Result<Value, ToolsError> {
        super::prepared(&self.shell).await?;
        let directory = self.shell.directory(args.workdir.as_deref())?;
        let limit = limit(&self.shell, args.timeout_s);
        let began = Instant::now();
        let mut running = Running::start(&self.shell, &args.command, &directory)?;
        let mut capture = OutputCapture::new(self.shell.outputs.clone());
        let mut sink = |piece: &[u8]| tell(host, &capture.push(piece));
        let (ended, in_time) = tokio::select! {
            biased;
            () = host.cancelled() => return Err(ToolsError::Cancelled),
            ended = running.finish(&mut sink) => (ended, true),
            () = tokio::time::sleep(limit) => (running.end(&mut sink).await, false),
        };
        let mut answer = answer(&ended, began.elapsed());
        if !in_time {
            let seconds = limit.as_secs_f64();
            answer.insert("timed_out".to_owned(), format!("ended after {seconds} s").into());
        }
        capture.finish().write_to(&mut answer);
        Ok(answer.into())
    }
}

fn limit(shell: &Shell, asked: Option<usize>) -> Duration {
    let asked = asked.map(|seconds| Duration::from_secs(seconds.max(1) as u64));
    asked.unwrap_or(shell.limits.time).min(shell.limits.max_time)
}

fn answer(ended: &Ended, took: Duration) -> Map<String, Value> {
    let mut answer = Map::new();
    ended.write_to(&mut answer);
    answer.insert("duration_ms".to_owned(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into());
    answer
}

/// Tells those who watch the end of what has come.
fn tell(host: &dyn ToolHost, piece: &[u8]) {
    let end = &piece[piece.len().saturating_sub(PROGRESS_BYTES)..];
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
            self.run(args, &*request.host).await.map(ToolReply::Done)
        })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        preview(args)
    }
}

/// The command, and where it runs if that is elsewhere.
pub(super) fn preview(args: &Map<String, Value>) -> Option<String> {
    let command = args.get("command")?.as_str()?;
    let place = args.get("workdir").and_then(Value::as_str).map(|dir| format!("in {dir}: "));
    Some(format!("{}{command}", place.unwrap_or_default()))
}
