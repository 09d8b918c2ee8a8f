//! The tools `exec_start`, `exec_status` and `exec_stop`.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::BackgroundJobs;
use crate::{
    Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args,
    exec::run::{preview, protected_parameter},
};

const START: &str = "exec_start";
const STATUS: &str = "exec_status";
const STOP: &str = "exec_stop";
/// The longest time that `exec_status` waits for new output, in seconds.
const MAX_WAIT: usize = 60;

/// The tool `exec_start`: starts a command without waiting for it.
#[derive(Debug)]
pub struct ExecStart {
    spec: Spec,
    jobs: Arc<BackgroundJobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecStartArgs {
    pub(super) command: String,
    pub(super) workdir: Option<String>,
    /// The policy asks for these paths.
    #[serde(default, rename = "protected")]
    _protected: Vec<String>,
}

impl ExecStart {
    pub fn new(jobs: Arc<BackgroundJobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "Run by sh -c, without input."},
                "workdir": {"type": "string", "description": format!("{} Default: the working directory.", jobs.context.roots.path_syntax())},
                "protected": protected_parameter(),
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        let description = "Starts a shell command that runs on in the background, such as a server. Check it with exec_status, stop it with exec_stop.";
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
            let args: ExecStartArgs = args::parse(START, request.args)?;
            crate::exec::prepare(&self.jobs.context).await?;
            let job = self.jobs.start(request.host.owner(), &args, &request.sandbox)?;
            Ok(ToolReply::Done(job.summary().into()))
        })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        preview(args)
    }
}

/// The tool `exec_status`: state and new output of a job.
#[derive(Debug)]
pub struct ExecStatus {
    spec: Spec,
    jobs: Arc<BackgroundJobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecStatusArgs {
    job: Option<String>,
    #[serde(default, deserialize_with = "args::integer")]
    wait_s: Option<usize>,
}

impl ExecStatus {
    pub fn new(jobs: Arc<BackgroundJobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "job": {"type": "string", "description": "As exec_start named it. Default: a list of all jobs."},
                "wait_s": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Seconds to wait for new output or the end. Default: 0."},
            },
            "additionalProperties": false,
        });
        let description = "Whether a background command is running, and its output since the last call. read_output returns all of it.";
        Self { spec: Spec::read_only(STATUS, description, parameters), jobs }
    }
}

impl Tool for ExecStatus {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args: ExecStatusArgs = args::parse(STATUS, request.args)?;
            let owner = request.host.owner();
            let Some(name) = args.job else { return Ok(ToolReply::Done(self.jobs.list(&owner))) };
            let job = self.jobs.find(&owner, &name)?;
            let time = Duration::from_secs(args.wait_s.unwrap_or(0).min(MAX_WAIT) as u64);
            tokio::select! {
                biased;
                () = request.host.cancelled() => return Err(ToolsError::Cancelled),
                () = job.wait_for_output(time) => {}
            }
            job.read_new_output(&self.jobs.context).map(ToolReply::Done)
        })
    }
}

/// The tool `exec_stop`: terminates a job.
#[derive(Debug)]
pub struct ExecStop {
    spec: Spec,
    jobs: Arc<BackgroundJobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecStopArgs {
    job: String,
}

impl ExecStop {
    pub fn new(jobs: Arc<BackgroundJobs>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {"job": {"type": "string", "description": "As exec_start named it."}},
            "required": ["job"],
            "additionalProperties": false,
        });
        let description =
            "Terminates a background command with all its processes, and returns its last output.";
        // Stopping reverts what was approved at the start, so it needs no approval of its own.
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
            let args: ExecStopArgs = args::parse(STOP, request.args)?;
            let job = self.jobs.find(&request.host.owner(), &args.job)?;
            job.stop.notify_one();
            job.wait_for_end().await;
            job.read_new_output(&self.jobs.context).map(ToolReply::Done)
        })
    }
}
