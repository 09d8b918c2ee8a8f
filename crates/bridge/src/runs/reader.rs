//! Reading a run: from memory while it is there, from the log otherwise.

use super::{
    Runs,
    live::{End, Entry, Live, Place},
};
use crate::{
    row::Restorer,
    service::{service_error, store_key},
};
use adk::{error::ServiceError, session::SessionKey};
use session::{PageRequest, Run, RunStatus, Seq};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// How often a run of another process is looked at.
const LOOK: Duration = Duration::from_millis(100);
const PAGE: usize = 256;

/// One reader of one run. It sees each event once, at its own pace.
#[derive(Debug)]
pub struct Reader {
    id: String,
    place: Place,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Live(Arc<Live>),
    Log(Box<Log>),
}

/// What the log has of a run.
#[derive(Debug)]
struct Log {
    runs: Runs,
    key: SessionKey,
    run: Run,
    restorer: Restorer,
    /// How far the log was read, and how many events of the run that was.
    read: Seq,
    counted: u64,
    ready: VecDeque<Entry>,
}

impl Reader {
    pub(super) fn live(id: String, live: Arc<Live>, place: Place) -> Self {
        Self { id, place, source: Source::Live(live) }
    }

    pub(super) fn stored(runs: Runs, key: SessionKey, run: Run, place: Place) -> Self {
        let id = run.id.clone();
        Self { id, place, source: Source::Log(Box::new(Log::new(runs, key, run))) }
    }

    /// Where the stored events of a run end.
    pub(super) async fn end_of(runs: &Runs, key: &SessionKey, run: &Run) -> Result<Place, ServiceError> {
        let mut log = Log::new(runs.clone(), key.clone(), run.clone());
        while log.read_page().await? {
            log.ready.clear();
        }
        Ok(Place { stored: log.counted, partial: 0 })
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The next event, or how the run ended. Waits for it.
    pub async fn next(&mut self) -> Result<Result<Entry, End>, ServiceError> {
        loop {
            let entry = match &mut self.source {
                Source::Live(live) => live.after(self.place).await,
                Source::Log(log) => {
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
        let Source::Log(log) = &self.source else { return };
        match log.runs.live(&log.key, &self.id).filter(|live| live.reaches(self.place)) {
            Some(live) => self.source = Source::Live(live),
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

impl Log {
    fn new(runs: Runs, key: SessionKey, run: Run) -> Self {
        let read = run.started_after;
        // Authors are in the rows that runs write; the name is for older ones.
        let restorer = Restorer::new("");
        Self { runs, key, run, restorer, read, counted: 0, ready: VecDeque::new() }
    }

    /// `None` if there is nothing more now, and the run is not over.
    async fn next(&mut self, place: Place) -> Result<Option<Result<Entry, End>>, ServiceError> {
        loop {
            if self.run.status == RunStatus::Queued {
                // What is in the log by now is not its.
                self.look_again().await?;
                if self.run.status == RunStatus::Queued {
                    return Ok(None);
                }
                self.read = self.run.started_after;
            }
            while let Some(entry) = self.ready.pop_front() {
                if entry.place > place {
                    return Ok(Some(Ok(entry)));
                }
            }
            if self.read_page().await? {
                continue;
            }
            let (known, was_over) = (self.run.last_seq, self.is_over());
            self.look_again().await?;
            match (self.is_over(), self.run.last_seq > known || !was_over) {
                (true, false) => return Ok(Some(Err(self.end()))),
                (true, true) => {}
                (false, _) => return Ok(None),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.run.status.is_over() || self.run.status == RunStatus::Waiting
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

    /// Reads on in the log; `false` at its end. A run that is over ends where it says.
    async fn read_page(&mut self) -> Result<bool, ServiceError> {
        let page = PageRequest { after: self.read, limit: PAGE };
        let rows = self.runs.store.read(&store_key(&self.key), page).await;
        let rows = rows.map_err(|error| service_error(error, &self.key))?;
        let last = if self.is_over() { self.run.last_seq } else { Seq(u64::MAX) };
        let mut any = false;
        for row in rows.iter().filter(|row| row.seq <= last) {
            any = true;
            self.read = row.seq;
            let event = self.restorer.restore(row);
            if !event.is_from_user() {
                self.counted += 1;
                self.ready.push_back(Entry::new(Place { stored: self.counted, partial: 0 }, event));
            }
        }
        Ok(any)
    }

    fn end(&self) -> End {
        match self.run.status {
            RunStatus::Cancelled => End::Cancelled,
            RunStatus::Failed => {
                End::Failed { message: self.run.error.clone().unwrap_or_default(), told: true }
            }
            RunStatus::Interrupted => {
                End::Failed { message: "the run was interrupted".to_owned(), told: false }
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Done => End::Done,
        }
    }
}
