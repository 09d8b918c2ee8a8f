//! Commands that run on beside the conversation. They are of whoever started them, and nobody else sees them. They end when
//! they are stopped, and with the tools that started them.

mod tools;

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Seek, SeekFrom},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};
pub use tools::{ExecStart, ExecStatus, ExecStop};

use super::{
    Shell,
    process::{Ended, Running},
};
use crate::{
    AppUser, ToolsError, media,
    outputs::{HandleKind, OutputCapture, to_plain_text},
    paging,
};

/// How much of what is new is shown at one look.
const NEWS: u64 = 24 * 1024;
/// Jobs that are done stay this many, so that their end can be looked at.
const DONE: usize = 32;

/// The jobs of one registry.
#[derive(Debug)]
pub struct Jobs {
    shell: Arc<Shell>,
    tables: Mutex<HashMap<AppUser, Table>>,
}

/// The jobs of one owner.

#[derive(Debug, Default)]
struct Table {
    last: u64,
    jobs: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    job: Arc<Job>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Job {
    number: u64,
    command: String,
    /// Of its output.
    handle: String,
    stop: Notify,
    state: watch::Sender<State>,
    /// How much of the output was shown.
    looked: Mutex<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    bytes: u64,
    ended: Option<Ended>,
    stopped: bool,
}

impl Jobs {
    pub fn new(shell: Arc<Shell>) -> Arc<Self> {
        Arc::new(Self { shell, tables: Mutex::default() })
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<AppUser, Table>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, owner: AppUser, command: &str, workdir: Option<&str>) -> Result<Arc<Job>, ToolsError> {
        let directory = self.shell.directory(workdir)?;
        let mut tables = self.tables();
        let table = tables.entry(owner).or_default();
        table.make_room(self.shell.limits.jobs)?;
        let running = Running::start(&self.shell, command, &directory)?;
        let (capture, handle) = OutputCapture::stored_from_start(self.shell.outputs.clone())?;
        table.last += 1;
        let job = Arc::new(Job {
            number: table.last,
            command: command.to_owned(),
            handle,
            stop: Notify::new(),
            state: watch::Sender::new(State::default()),
            looked: Mutex::new(0),
        });
        let task = tokio::spawn(follow(Arc::clone(&job), running, capture)).abort_handle();
        table.jobs.insert(job.number, Entry { job: Arc::clone(&job), task });
        Ok(job)
    }

    fn find(&self, owner: &AppUser, name: &str) -> Result<Arc<Job>, ToolsError> {
        let number = name.strip_prefix("job-").and_then(|number| number.parse().ok());
        let tables = self.tables();
        let jobs = tables.get(owner).map(|table| &table.jobs);
        let entry = number.and_then(|number: u64| jobs?.get(&number));
        entry.map(|entry| Arc::clone(&entry.job)).ok_or_else(|| {
            ToolsError::Failed(format!(
                "there is no job `{name}`; jobs end when the program does, exec_status lists them"
            ))
        })
    }

    fn list(&self, owner: &AppUser) -> Value {
        let tables = self.tables();
        let jobs = tables.get(owner).into_iter().flat_map(|table| table.jobs.values());
        let jobs: Vec<Value> = jobs.map(|entry| entry.job.line().into()).collect();
        json!({"jobs": jobs})
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for entry in self.tables().values().flat_map(|table| table.jobs.values()) {
            entry.task.abort();
        }
    }
}

impl Table {
    fn make_room(&mut self, limit: usize) -> Result<(), ToolsError> {
        let done: Vec<u64> =
            self.jobs.values().filter(|entry| entry.job.is_done()).map(|entry| entry.job.number).collect();
        if self.jobs.len() - done.len() >= limit {
            return Err(ToolsError::Failed(format!(
                "{limit} jobs are running, and no more may; stop one with exec_stop"
            )));
        }
        for number in done.iter().rev().skip(DONE - 1) {
            self.jobs.remove(number);
        }
        Ok(())
    }
}

/// Carries a job to its end.
async fn follow(job: Arc<Job>, mut running: Running, mut capture: OutputCapture) {
    let mut sink = |piece: &[u8]| {
        drop(capture.push(piece));
        job.state.send_modify(|state| state.bytes = capture.total());
    };
    let (ended, stopped) = tokio::select! {
        biased;
        () = job.stop.notified() => (running.end(&mut sink).await, true),
        ended = running.finish(&mut sink) => (ended, false),
    };
    capture.flush();
    job.state.send_modify(|state| {
        state.bytes = capture.total();
        state.ended = Some(ended);
        state.stopped = stopped;
    });
}

impl Job {
    fn is_done(&self) -> bool {
        self.state.borrow().ended.is_some()
    }

    fn line(&self) -> Map<String, Value> {
        let state = *self.state.borrow();
        let mut line = Map::new();
        line.insert("job".to_owned(), format!("job-{}", self.number).into());
        line.insert("command".to_owned(), self.command.clone().into());
        let now = match state.ended {
            None => "running",
            Some(_) if state.stopped => "stopped",
            Some(_) => "exited",
        };
        line.insert("state".to_owned(), now.into());
        if let Some(ended) = state.ended {
            ended.write_to(&mut line);
        }
        line
    }

    /// Waits until there is something that was not shown yet, or the end, or for so long.
    async fn wait_for_news(&self, patience: Duration) {
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state.subscribe();
        let news = state.wait_for(|state| state.ended.is_some() || state.bytes > looked);
        let _ = tokio::time::timeout(patience, news).await;
    }

    async fn wait_for_end(&self) {
        // The sender is in the job itself, so that the channel is open.
        let _ = self.state.subscribe().wait_for(|state| state.ended.is_some()).await;
    }

    /// The job's line with the output that was not shown yet.
    fn look(&self, shell: &Shell) -> Result<Value, ToolsError> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = self.line();
        let mut file = shell.outputs.open(HandleKind::Output, &self.handle)?;
        let bytes = self.state.borrow().bytes;
        let from = (*looked).max(bytes.saturating_sub(NEWS));
        let mut news = Vec::new();
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.take(bytes - from).read_to_end(&mut news))
            .map_err(|source| ToolsError::OutputStore { source })?;
        let skipped = if from > *looked { paging::line_start(&news) } else { 0 };
        let left_out = from + skipped as u64 - *looked;
        *looked = bytes;
        drop(looked);
        match media::binary_kind(&news[..news.len().min(media::SNIFF_BYTES)]) {
            Some(kind) => answer.insert("binary".to_owned(), kind.into()),
            None => answer.insert("new_output".to_owned(), to_plain_text(&news[skipped..]).into()),
        };
        if left_out > 0 {
            answer.insert("left_out_bytes".to_owned(), left_out.into());
        }
        answer.insert("bytes".to_owned(), bytes.into());
        answer.insert("handle".to_owned(), self.handle.clone().into());
        Ok(answer.into())
    }
}
