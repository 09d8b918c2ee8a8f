//! Reading a run: from memory while it is there, from the log otherwise.

use super::{
    Runs,
    live::{Cursor, LiveOutcome, LiveRun, RunEntry, RunOutcome},
    registry::RunKey,
};
use crate::store::{
    row::Restorer,
    service::{service_error, store_key},
};
use adk::{error::ServiceError, session::SessionKey};
use session::{PageRequest, RunRecord, RunStatus, Seq};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// How often a run of another process is looked at.
const LOOK: Duration = Duration::from_millis(100);
const PAGE: usize = 256;

/// One reader of one run. It sees each event once, at its own pace.
#[derive(Debug)]
pub struct Reader {
    id: String,
    place: Cursor,
    source: ReaderSource,
}

#[derive(Debug)]
enum ReaderSource {
    LiveRun { live: Arc<LiveRun>, runs: Runs, key: SessionKey },
    LogReader(Box<LogReader>),
}

impl ReaderSource {
    /// The log of a run that another process continues.
    async fn log(runs: Runs, key: SessionKey, id: &str) -> Result<Self, ServiceError> {
        let run = runs.store.run(&store_key(&key), id).await.map_err(|error| service_error(error, &key))?;
        let run = run.ok_or_else(|| ServiceError::NotFound(key.clone()))?;
        Ok(Self::LogReader(Box::new(LogReader::new(runs, key, run))))
    }
}

/// What the log has of a run.
#[derive(Debug)]
struct LogReader {
    runs: Runs,
    key: SessionKey,
    run: RunRecord,
    restorer: Restorer,
    /// How far the log was read, and how many events of the run that was.
    read: Seq,
    counted: u64,
    ready: VecDeque<RunEntry>,
}

impl Reader {
    pub(super) fn live(runs: Runs, key: RunKey, live: Arc<LiveRun>, place: Cursor) -> Self {
        let RunKey { session: key, id } = key;
        Self { id, place, source: ReaderSource::LiveRun { live, runs, key } }
    }

    pub(super) fn stored(runs: Runs, key: SessionKey, run: RunRecord, place: Cursor) -> Self {
        let id = run.id.clone();
        Self { id, place, source: ReaderSource::LogReader(Box::new(LogReader::new(runs, key, run))) }
    }

    /// Where the stored events of a run end.
    pub(super) async fn end_of(
        runs: &Runs,
        key: &SessionKey,
        run: &RunRecord,
    ) -> Result<Cursor, ServiceError> {
        let mut log = LogReader::new(runs.clone(), key.clone(), run.clone());
        while log.read_page().await? {
            log.ready.clear();
        }
        Ok(Cursor { stored: log.counted, partial: 0 })
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The place that it has read to.
    pub fn place(&self) -> Cursor {
        self.place
    }

    /// The next event, or how the run ended. Waits for it.
    pub async fn next(&mut self) -> Result<Result<RunEntry, RunOutcome>, ServiceError> {
        loop {
            let entry = match &mut self.source {
                ReaderSource::LiveRun { live, runs, key } => match live.after(self.place).await {
                    Ok(entry) => Ok(entry),
                    Err(LiveOutcome::Over(end)) => Err(end),
                    Err(LiveOutcome::Moved) => {
                        let (runs, key) = (runs.clone(), key.clone());
                        self.source = ReaderSource::log(runs, key, &self.id).await?;
                        continue;
                    }
                },
                ReaderSource::LogReader(log) => {
                    let Some(entry) = log.next(self.place).await? else {
                        self.follow().await;
                        continue;
                    };
                    entry
                }
            };
            if let Ok(entry) = &entry {
                self.place = entry.place;
            }
            return Ok(entry);
        }
    }

    /// The run goes on, and not before our eyes: it may be taken up in this process, or be another's.
    async fn follow(&mut self) {
        let ReaderSource::LogReader(log) = &self.source else { return };
        match log.runs.live(&log.key, &self.id).filter(|live| live.reaches(self.place)) {
            Some(live) => {
                self.source = ReaderSource::LiveRun { live, runs: log.runs.clone(), key: log.key.clone() }
            }
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

impl LogReader {
    fn new(runs: Runs, key: SessionKey, run: RunRecord) -> Self {
        let read = run.started_after;
        // Authors are in the rows that runs write; the name is for older ones.
        let restorer = Restorer::new("");
        Self { runs, key, run, restorer, read, counted: 0, ready: VecDeque::new() }
    }

    /// `None` if there is nothing more now, and the run is not over.
    async fn next(&mut self, place: Cursor) -> Result<Option<Result<RunEntry, RunOutcome>>, ServiceError> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if entry.place > place {
                    return Ok(Some(Ok(entry)));
                }
            }
            // The status is read before the rows: once it says that the run is over, no row is missing.
            let is_over = self.is_over();
            if self.read_page().await? {
                continue;
            }
            if is_over {
                return Ok(Some(Err(self.end())));
            }
            self.look_again().await?;
            if !self.is_over() {
                return Ok(None);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.run.status.is_terminal() || self.run.status == RunStatus::Waiting
    }

    /// The run as it is now. A run whose session was deleted is over.
    async fn look_again(&mut self) -> Result<(), ServiceError> {
        let run = self.runs.store.run(&store_key(&self.key), &self.run.id).await;
        match run.map_err(|error| service_error(error, &self.key))? {
            Some(run) => self.run = run,
            None => self.run.status = RunStatus::Cancelled,
        }
        Ok(())
    }

    /// Reads on in the log; `false` if the run has no further row.
    async fn read_page(&mut self) -> Result<bool, ServiceError> {
        let page = PageRequest { after: self.read, limit: PAGE };
        let rows = match self.runs.store.read_run(&store_key(&self.key), self.run.number, page).await {
            Err(session::Error::NotFound(_)) => return Ok(false),
            rows => rows.map_err(|error| service_error(error, &self.key))?,
        };
        for row in &rows {
            self.read = row.seq;
            let event = self.restorer.restore(row);
            if !event.is_from_user() {
                self.counted += 1;
                self.ready.push_back(RunEntry::new(Cursor { stored: self.counted, partial: 0 }, event));
            }
        }
        Ok(!rows.is_empty())
    }

    fn end(&self) -> RunOutcome {
        match self.run.status {
            RunStatus::Cancelled => RunOutcome::Cancelled,
            RunStatus::Failed => {
                RunOutcome::Failed { message: self.run.error.clone().unwrap_or_default(), told: true }
            }
            RunStatus::Interrupted => {
                RunOutcome::Failed { message: "the run was interrupted".to_owned(), told: false }
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Done => RunOutcome::Done,
        }
    }
}
