//! `exec_start`, `exec_status` and `exec_stop`.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Jobs;
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, exec::run::preview};

const START: &str = "exec_start";
const STATUS: &str = "exec_status";
const STOP: &str = "exec_stop";
/// The longest that a look waits for something new.
const MAX_WAIT: usize = 60;

/// Starts a command and does not wait for it.
#[derive(Debug)]
pub struct ExecStart {
    spec: Spec,
    jobs: Arc<Jobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArgs {
    command: String,
    workdir: Option<String>,
}

impl ExecStart {
    pub fn new(jobs: Arc<Jobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "Run by sh -c, without input."},
                "workdir": {"type": "string", "description": format!("{} Default: the working directory.", jobs.shell.roots.path_syntax())},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        let description = "Starts a shell command that runs on in the background, such as a server. Look at it with exec_status, end it with exec_stop.";
        let spec = Spec::new(START, description, parameters, Safety::Execute, Effect::Once);
        Self { spec, jobs }
    }
}

impl Tool for ExecStart {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args: StartArgs = args::parse(START, request.args)?;
            crate::exec::prepared(&self.jobs.shell).await?;
            let job = self.jobs.start(request.host.owner(), &args.command, args.workdir.as_deref())?;
            Ok(ToolReply::Done(job.line().into()))
        })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        preview(args)
    }
}

/// Looks at background commands.
#[derive(Debug)]
pub struct ExecStatus {
    spec: Spec,
    jobs: Arc<Jobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusArgs {
    job: Option<String>,
    #[serde(default, deserialize_with = "args::integer")]
    wait_s: Option<usize>,
}

impl ExecStatus {
    pub fn new(jobs: Arc<Jobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "job": {"type": "string", "description": "As exec_start named it. Default: a list of all jobs."},
                "wait_s": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Seconds to wait for new output or the end. Default: 0."},
            },
            "additionalProperties": false,
        });
        let description = "Whether a background command is running, and its output since the last look. read_output shows all of it.";
        Self { spec: Spec::read_only(STATUS, description, parameters), jobs }
    }
}

impl Tool for ExecStatus {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args: StatusArgs = args::parse(STATUS, request.args)?;
            let owner = request.host.owner();
            let Some(name) = args.job else { return Ok(ToolReply::Done(self.jobs.list(&owner))) };
            let job = self.jobs.find(&owner, &name)?;
            let patience = Duration::from_secs(args.wait_s.unwrap_or(0).min(MAX_WAIT) as u64);
            tokio::select! {
                biased;
                () = request.host.cancelled() => return Err(ToolsError::Cancelled),
                () = job.wait_for_news(patience) => {}
            }
            job.look(&self.jobs.shell).map(ToolReply::Done)
        })
    }
}

/// Ends background commands.
#[derive(Debug)]
pub struct ExecStop {
    spec: Spec,
    jobs: Arc<Jobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopArgs {
    job: String,
}

impl ExecStop {
    pub fn new(jobs: Arc<Jobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {"job": {"type": "string", "description": "As exec_start named it."}},
            "required": ["job"],
            "additionalProperties": false,
        });
        let description = "Ends a background command with all that it started, and gives its last output.";
        // It undoes what a person has approved, so nobody is asked again.
        let spec = Spec::new(STOP, description, parameters, Safety::Read, Effect::Idempotent);
        Self { spec, jobs }
    }
}

impl Tool for ExecStop {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args: StopArgs = args::parse(STOP, request.args)?;
            let job = self.jobs.find(&request.host.owner(), &args.job)?;
            job.stop.notify_one();
            job.wait_for_end().await;
            job.look(&self.jobs.shell).map(ToolReply::Done)
        })
    }
}
