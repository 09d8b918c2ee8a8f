//! Reads the events of a run: from memory while it is there, else from the log.

use super::{
    Runs,
    live::{Cursor, LiveItem, LiveOutcome, LiveRun, RunEntry, RunOutcome},
    registry::RunKey,
};
use crate::store::row::Restorer;
use adk::{error::ServiceError, session::SessionKey};
use session::{PageRequest, RunRecord, RunStatus, Seq};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Poll interval for a run of another process.
const POLL: Duration = Duration::from_millis(100);
const PAGE: usize = 256;
/// Approximate size of a page: a slow reader holds one in memory. A larger event is a page of its own.
const PAGE_BYTES: usize = 64 * 1024;

/// One reader of one run. It returns each event once, at its own pace.
#[derive(Debug)]
pub struct Reader {
    id: String,
    cursor: Cursor,
    source: ReaderSource,
}

/// The next item of a run for its reader.
#[derive(Clone, Debug)]
pub enum ReaderItem {
    Entry(RunEntry),
    /// How the run ended. There is no further item.
    End(RunOutcome),
}

#[derive(Debug)]
enum ReaderSource {
    LiveRun { live: Arc<LiveRun>, runs: Runs, key: SessionKey },
    LogReader(Box<LogReader>),
}

impl ReaderSource {
    /// The log of a run that another process continues.
    async fn log(runs: Runs, key: SessionKey, id: &str) -> Result<Self, ServiceError> {
        let run = runs.stored(&key).run(id).await?;
        let run = run.ok_or_else(|| ServiceError::NotFound(key.clone()))?;
        Ok(Self::LogReader(Box::new(LogReader::new(runs, key, run))))
    }
}

/// The events of a run in the log.
#[derive(Debug)]
struct LogReader {
    runs: Runs,
    key: SessionKey,
    run: RunRecord,
    restorer: Restorer,
    /// The last row that was read, and the number of events of the run up to it.
    read: Seq,
    counted: u64,
    /// The same before the last page.
    page_start: (Seq, u64),
    ready: VecDeque<RunEntry>,
}

impl Reader {
    pub(super) fn live(runs: Runs, key: RunKey, live: Arc<LiveRun>, cursor: Cursor) -> Self {
        let RunKey { session: key, id } = key;
        Self { id, cursor, source: ReaderSource::LiveRun { live, runs, key } }
    }

    pub(super) fn stored(runs: Runs, key: SessionKey, run: RunRecord, cursor: Cursor) -> Self {
        let id = run.id.clone();
        Self { id, cursor, source: ReaderSource::LogReader(Box::new(LogReader::new(runs, key, run))) }
    }

    /// The cursor after the last stored event of a run.
    pub(super) async fn stored_end(
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

    /// The id of the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The cursor of the last entry that was returned.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The user whose run it is.
    pub fn user(&self) -> &str {
        match &self.source {
            ReaderSource::LiveRun { key, .. } => &key.user_id,
            ReaderSource::LogReader(log) => &log.key.user_id,
        }
    }

    /// Returns to an earlier cursor: the last entry, if `cursor` is the one before it, is read again. Frees what was read from the log.
    pub fn rewind(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        if let ReaderSource::LogReader(log) = &mut self.source {
            (log.read, log.counted) = log.page_start;
            log.ready = VecDeque::new();
        }
    }

    /// Waits for the next event, or for the end of the run.
    pub async fn next(&mut self) -> Result<ReaderItem, ServiceError> {
        loop {
            let item = match &mut self.source {
                ReaderSource::LiveRun { live, runs, key } => match live.next_after(self.cursor).await {
                    LiveItem::Entry(entry) => ReaderItem::Entry(entry),
                    LiveItem::End(LiveOutcome::Over(end)) => ReaderItem::End(end),
                    LiveItem::End(LiveOutcome::Moved) => {
                        let (runs, key) = (runs.clone(), key.clone());
                        self.source = ReaderSource::log(runs, key, &self.id).await?;
                        continue;
                    }
                },
                ReaderSource::LogReader(log) => {
                    let Some(item) = log.next(self.cursor).await? else {
                        self.follow_or_wait().await;
                        continue;
                    };
                    item
                }
            };
            if let ReaderItem::Entry(entry) = &item {
                self.cursor = entry.cursor;
            }
            return Ok(item);
        }
    }

    /// The log has no further event yet: switches to memory if this process has the run, else waits for the poll
    /// interval.
    async fn follow_or_wait(&mut self) {
        let ReaderSource::LogReader(log) = &self.source else { return };
        match log.runs.live(&log.key, &self.id).filter(|live| live.covers(self.cursor)) {
            Some(live) => {
                self.source = ReaderSource::LiveRun { live, runs: log.runs.clone(), key: log.key.clone() }
            }
            None => tokio::time::sleep(POLL).await,
        }
    }
}

impl LogReader {
    fn new(runs: Runs, key: SessionKey, run: RunRecord) -> Self {
        let read = run.started_after;
        // Rows of runs contain their author; the default name is for older rows.
        let restorer = Restorer::new("");
        let page_start = (read, 0);
        Self { runs, key, run, restorer, read, counted: 0, page_start, ready: VecDeque::new() }
    }

    /// `None` if there is no further event yet and the run is not over.
    async fn next(&mut self, cursor: Cursor) -> Result<Option<ReaderItem>, ServiceError> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if entry.cursor > cursor {
                    return Ok(Some(ReaderItem::Entry(entry)));
                }
            }
            // The status is read before the rows: if it says that the run is over, no row is missing.
            let is_over = self.is_over();
            if self.read_page().await? {
                continue;
            }
            if is_over {
                return Ok(Some(ReaderItem::End(self.end())));
            }
            self.refresh().await?;
            if !self.is_over() {
                return Ok(None);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.run.status.is_terminal() || self.run.status == RunStatus::Waiting
    }

    /// Reads the run again. A run whose session was deleted counts as cancelled.
    async fn refresh(&mut self) -> Result<(), ServiceError> {
        match self.runs.stored(&self.key).run(&self.run.id).await? {
            Some(run) => self.run = run,
            None => self.run.status = RunStatus::Cancelled,
        }
        Ok(())
    }

    /// Reads the next page of the log; `false` if the run has no further row.
    async fn read_page(&mut self) -> Result<bool, ServiceError> {
        let page = PageRequest { after: self.read, limit: PAGE, max_bytes: PAGE_BYTES };
        let rows = match self.runs.stored(&self.key).read_run(self.run.number, page).await {
            Err(ServiceError::NotFound(_)) => return Ok(false),
            rows => rows?,
        };
        self.page_start = (self.read, self.counted);
        for row in &rows {
            // A reader that is at an earlier event does not hold a large one.
            if row.message.size() > PAGE_BYTES && !self.ready.is_empty() {
                break;
            }
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
                RunOutcome::Failed { message: self.run.error.clone().unwrap_or_default(), in_log: true }
            }
            RunStatus::Interrupted => {
                RunOutcome::Failed { message: "the run was interrupted".to_owned(), in_log: false }
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Done => RunOutcome::Done,
        }
    }
}
