//! Background jobs: commands that outlive the call that started them. A job is visible only to its owner. It ends when it is
//! stopped, or when its [`BackgroundJobs`] is dropped.

mod tools;

use lock::LockExt;
use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Seek, SeekFrom},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};
use tools::ExecStartArgs;
pub use tools::{ExecStart, ExecStatus, ExecStop};

use super::{
    ExecToolContext, notes,
    process::{CommandExit, RunningCommand, ScriptCall},
};
use crate::{
    AppUser, SandboxAccess, SandboxProfile, ToolsError, media,
    outputs::{HandleKind, OutputCapture, to_plain_text},
    paging,
};

/// How many bytes of new output one status call returns.
const MAX_NEW_OUTPUT: u64 = 24 * 1024;
/// How many finished jobs of an owner stay listed.
const MAX_FINISHED: usize = 32;

/// The background jobs of one registry.
#[derive(Debug)]
pub struct BackgroundJobs {
    context: Arc<ExecToolContext>,
    owners: Mutex<HashMap<AppUser, OwnerJobs>>,
}

/// The jobs of one owner.
#[derive(Debug, Default)]
struct OwnerJobs {
    last_number: u64,
    jobs: BTreeMap<u64, JobEntry>,
}

#[derive(Debug)]
struct JobEntry {
    job: Arc<BackgroundJob>,
    task: AbortHandle,
}

#[derive(Debug)]
struct BackgroundJob {
    number: u64,
    command: String,
    /// Handle of the output in the output store.
    handle: String,
    stop: Notify,
    state: watch::Sender<JobState>,
    /// How many bytes of the output were returned by earlier status calls.
    read_offset: Mutex<u64>,
}

#[derive(Debug, Clone, Default)]
struct JobState {
    /// Length of the output so far.
    bytes: u64,
    ended: Option<CommandExit>,
    stopped: bool,
}

impl BackgroundJobs {
    pub fn new(context: Arc<ExecToolContext>) -> Arc<Self> {
        Arc::new(Self { context, owners: Mutex::default() })
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<AppUser, OwnerJobs>> {
        self.owners.locked()
    }

    fn start(
        &self,
        owner: AppUser,
        args: &ExecStartArgs,
        access: &SandboxAccess,
    ) -> Result<Arc<BackgroundJob>, ToolsError> {
        let directory = self.context.resolve_workdir(args.workdir.as_deref())?;
        let mut owners = self.owners();
        let owned = owners.entry(owner).or_default();
        owned.reserve(self.context.limits.jobs)?;
        let script = ScriptCall { text: &args.command, directory: &directory, access };
        let running = RunningCommand::start(&self.context, &script)?;
        let (capture, handle) = OutputCapture::stored_from_start(self.context.outputs.clone())?;
        owned.last_number += 1;
        let job = Arc::new(BackgroundJob {
            number: owned.last_number,
            command: args.command.clone(),
            handle,
            stop: Notify::new(),
            state: watch::Sender::new(JobState::default()),
            read_offset: Mutex::new(0),
        });
        let task = tokio::spawn(supervise(Arc::clone(&job), running, capture)).abort_handle();
        owned.jobs.insert(job.number, JobEntry { job: Arc::clone(&job), task });
        Ok(job)
    }

    fn find(&self, owner: &AppUser, name: &str) -> Result<Arc<BackgroundJob>, ToolsError> {
        let number = name.strip_prefix("job-").and_then(|number| number.parse().ok());
        let owners = self.owners();
        let jobs = owners.get(owner).map(|owned| &owned.jobs);
        let entry = number.and_then(|number: u64| jobs?.get(&number));
        entry.map(|entry| Arc::clone(&entry.job)).ok_or_else(|| {
            ToolsError::Failed(format!(
                "job `{name}` does not exist; jobs end with the program, and exec_status lists the current ones"
            ))
        })
    }

    fn list(&self, owner: &AppUser) -> Value {
        let owners = self.owners();
        let jobs = owners.get(owner).into_iter().flat_map(|owned| owned.jobs.values());
        let jobs: Vec<Value> = jobs.map(|entry| entry.job.summary().into()).collect();
        json!({"jobs": jobs})
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        for entry in self.owners().values().flat_map(|owned| owned.jobs.values()) {
            entry.task.abort();
        }
    }
}

impl OwnerJobs {
    /// Makes room for one more job: checks the limit of running jobs and forgets old finished ones.
    fn reserve(&mut self, limit: usize) -> Result<(), ToolsError> {
        let finished: Vec<u64> =
            self.jobs.values().filter(|entry| entry.job.has_ended()).map(|entry| entry.job.number).collect();
        if self.jobs.len() - finished.len() >= limit {
            return Err(ToolsError::Failed(format!(
                "{limit} jobs are running, which is the limit; stop one with exec_stop"
            )));
        }
        for number in finished.iter().rev().skip(MAX_FINISHED - 1) {
            self.jobs.remove(number);
        }
        Ok(())
    }
}

/// Captures the output of a job until it ends or is stopped.
async fn supervise(job: Arc<BackgroundJob>, mut running: RunningCommand, mut capture: OutputCapture) {
    let mut sink = |chunk: &[u8]| {
        drop(capture.push(chunk));
        job.state.send_modify(|state| state.bytes = capture.total());
    };
    let (ended, stopped) = tokio::select! {
        biased;
        () = job.stop.notified() => (running.terminate(&mut sink).await, true),
        ended = running.wait(&mut sink) => (ended, false),
    };
    capture.flush();
    job.state.send_modify(|state| {
        state.bytes = capture.total();
        state.ended = Some(ended);
        state.stopped = stopped;
    });
}

impl BackgroundJob {
    fn has_ended(&self) -> bool {
        self.state.borrow().ended.is_some()
    }

    /// Number, command and state, without output.
    fn summary(&self) -> Map<String, Value> {
        let state = self.state.borrow().clone();
        let mut summary = Map::new();
        summary.insert("job".to_owned(), format!("job-{}", self.number).into());
        summary.insert("command".to_owned(), self.command.clone().into());
        let status = match state.ended {
            None => "running",
            Some(_) if state.stopped => "stopped",
            Some(_) => "exited",
        };
        summary.insert("state".to_owned(), status.into());
        if let Some(ended) = state.ended {
            ended.write_to(&mut summary);
            if let Some(note) = notes::note(&ended, "", SandboxProfile::Workspace) {
                summary.insert("note".to_owned(), note.into());
            }
        }
        summary
    }

    /// Waits for new output or the end of the job, at most for `time`.
    async fn wait_for_output(&self, time: Duration) {
        let read_offset = *self.read_offset.locked();
        let mut state = self.state.subscribe();
        let changed = state.wait_for(|state| state.ended.is_some() || state.bytes > read_offset);
        let _ = tokio::time::timeout(time, changed).await;
    }

    async fn wait_for_end(&self) {
        // It cannot fail: the job holds the sender, so the channel is open.
        let _ = self.state.subscribe().wait_for(|state| state.ended.is_some()).await;
    }

    /// The summary with the output since the last call of this function.
    fn read_new_output(&self, context: &ExecToolContext) -> Result<Value, ToolsError> {
        let mut read_offset = self.read_offset.locked();
        let mut answer = self.summary();
        let mut file = context.outputs.open(HandleKind::Output, &self.handle)?;
        let bytes = self.state.borrow().bytes;
        let from = (*read_offset).max(bytes.saturating_sub(MAX_NEW_OUTPUT));
        let mut output = Vec::new();
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.take(bytes - from).read_to_end(&mut output))
            .map_err(|source| ToolsError::OutputStore { source })?;
        let skipped = if from > *read_offset { paging::line_start(&output) } else { 0 };
        let left_out = from + skipped as u64 - *read_offset;
        *read_offset = bytes;
        drop(read_offset);
        match media::binary_kind(&output[..output.len().min(media::SNIFF_BYTES)]) {
            Some(kind) => answer.insert("binary".to_owned(), kind.into()),
            None => answer.insert("new_output".to_owned(), to_plain_text(&output[skipped..]).into()),
        };
        if left_out > 0 {
            answer.insert("left_out_bytes".to_owned(), left_out.into());
        }
        answer.insert("bytes".to_owned(), bytes.into());
        answer.insert("handle".to_owned(), self.handle.clone().into());
        Ok(answer.into())
    }
}
