//! The write connection: begins, commits and retries the transactions of jobs.

use super::WriteJob;
use crate::{
    Error,
    health::{AccessKind, StoreHealth},
    sqlite::{
        fault::{FileFault, injected, is_busy},
        files::OpenFiles,
    },
};
use failpoint::Point;
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    slice,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

/// Pauses between two attempts to acquire the write lock from another process.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A foreign write lock is reported after this time.
const REPORTED_AFTER: Duration = Duration::from_secs(3);
/// How long a closing store waits for the write lock. Shorter than the usual time, because the process is about to exit.
const CLOSING_WAIT: Duration = Duration::from_secs(2);

/// Guarded by a mutex: one thread uses it at a time.
#[derive(Debug)]
pub(super) struct WriteConnection {
    conn: Connection,
    path: PathBuf,
    files: Option<OpenFiles>,
    /// How long to wait for the write lock of another process.
    busy_timeout: Duration,
    /// Time at which the store began to close.
    closing: Arc<OnceLock<Instant>>,
    health: Arc<StoreHealth>,
    /// Set after the content of a deleted write-ahead log was checkpointed.
    is_checkpointed: OnceLock<()>,
}

/// Why a transaction was not committed.
enum TransactionError {
    /// A job failed; it must run again in its own transaction.
    ByJob,
    /// COMMIT or ROLLBACK failed, or the file is no longer at its path.
    ByFault(FileFault),
}

impl WriteConnection {
    pub(super) fn new(
        conn: Connection,
        (path, files): (PathBuf, Option<OpenFiles>),
        (busy_timeout, closing): (Duration, Arc<OnceLock<Instant>>),
        health: Arc<StoreHealth>,
    ) -> Self {
        Self { conn, path, files, busy_timeout, closing, health, is_checkpointed: OnceLock::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reports a failed job to the operator.
    pub(super) fn report(&self, error: &Error) {
        self.health.failed(AccessKind::Write, error);
    }

    /// Runs a job on the caller's thread. Returns the job if the transaction cannot begin immediately: the writer thread then
    /// waits for the lock or reports the error.
    pub(super) fn try_run(&self, job: Box<dyn WriteJob>) -> Option<Box<dyn WriteJob>> {
        match self.try_begin() {
            Ok(true) => {
                self.run_alone(job);
                None
            }
            Ok(false) | Err(_) => Some(job),
        }
    }

    /// Runs all jobs in one transaction. If that fails, runs each in its own transaction. Savepoints would isolate a
    /// failed job as well, but copy every touched page of every job.
    pub(super) fn commit(&self, mut batch: Vec<Box<dyn WriteJob>>) {
        if let Err(fault) = self.begin() {
            return batch.into_iter().for_each(|job| job.fail(&fault, self));
        }
        if batch.len() == 1 {
            return batch.into_iter().for_each(|job| drop(self.run_alone(job)));
        }
        match self.transaction(&mut batch) {
            Ok(()) => self.acknowledge(batch),
            Err(TransactionError::ByJob | TransactionError::ByFault(_)) => self.commit_each(batch),
        }
    }

    /// Commits the jobs one by one. After a fault that affects every transaction, the remaining jobs fail with it.
    fn commit_each(&self, batch: Vec<Box<dyn WriteJob>>) {
        let mut lasting: Option<FileFault> = None;
        for job in batch {
            let fault = match lasting.take() {
                Some(fault) => Err(fault),
                None => self.begin(),
            };
            lasting = match fault {
                Ok(()) => self.run_alone(job),
                Err(fault) => {
                    job.fail(&fault, self);
                    Some(fault)
                }
            };
        }
    }

    /// Runs one job in the open transaction and answers it. Returns a fault that affects every transaction.
    fn run_alone(&self, mut job: Box<dyn WriteJob>) -> Option<FileFault> {
        match self.transaction(slice::from_mut(&mut job)) {
            Ok(()) => {
                self.acknowledge(vec![job]);
                None
            }
            Err(TransactionError::ByJob) => {
                job.answer(self);
                None
            }
            Err(TransactionError::ByFault(fault)) => {
                self.overwrite_failed_commit(&fault);
                job.fail(&fault, self);
                fault.is_lasting().then_some(fault)
            }
        }
    }

    fn acknowledge(&self, batch: Vec<Box<dyn WriteJob>>) {
        self.health.succeeded(AccessKind::Write);
        for job in batch {
            job.answer(self);
        }
    }

    fn transaction(&self, jobs: &mut [Box<dyn WriteJob>]) -> Result<(), TransactionError> {
        let is_sound = jobs.iter_mut().all(|job| job.run(&self.conn));
        let ended = if is_sound {
            self.end().map_err(TransactionError::ByFault)
        } else {
            Err(TransactionError::ByJob)
        };
        // Some failures roll the transaction back automatically.
        if !self.conn.is_autocommit() {
            self.execute("ROLLBACK").map_err(TransactionError::ByFault)?;
        }
        ended?;
        // A commit to a file that is no longer at the path counts as lost.
        let files = self.files.as_ref();
        files.map_or(Ok(()), OpenFiles::check_database).map_err(TransactionError::ByFault)
    }

    fn end(&self) -> Result<(), FileFault> {
        self.hit(Point::BeforeCommit)?;
        self.execute("COMMIT")?;
        self.hit(Point::AfterCommit)
    }

    fn hit(&self, point: Point) -> Result<(), FileFault> {
        failpoint::hit(point).map_err(|fault| FileFault::of(&self.path, injected(fault)))
    }

    /// Begins a transaction. Waits while another process holds the write lock.
    fn begin(&self) -> Result<(), FileFault> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        let mut is_reported = false;
        loop {
            if self.try_begin()? {
                if is_reported {
                    self.health.note(&format!("is free again after {:.0?}", began.elapsed()));
                }
                return Ok(());
            }
            if self.gives_up(began) {
                // One more attempt returns the error of SQLite.
                return self.execute(BEGIN);
            }
            if began.elapsed() >= REPORTED_AFTER && !is_reported {
                is_reported = true;
                self.health.note("is locked by another program; writes wait for it");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn gives_up(&self, began: Instant) -> bool {
        let is_closed = |closing: &Instant| closing.elapsed() >= CLOSING_WAIT;
        began.elapsed() >= self.busy_timeout || self.closing.get().is_some_and(is_closed)
    }

    /// `false` if another process holds the write lock.
    fn try_begin(&self) -> Result<bool, FileFault> {
        self.hit(Point::BeforeBegin)?;
        self.check_files()?;
        if !self.conn.is_autocommit() {
            // The rollback of the previous transaction failed.
            self.execute("ROLLBACK")?;
        }
        // IMMEDIATE acquires the write lock first: a read transaction cannot be upgraded while another process writes.
        let begun = self.conn.prepare_cached(BEGIN).and_then(|mut begin| begin.execute([]));
        match begun {
            Ok(_) => Ok(true),
            Err(error) if is_busy(&error) => Ok(false),
            Err(error) => Err(FileFault::of(&self.path, error)),
        }
    }

    fn check_files(&self) -> Result<(), FileFault> {
        let Some(files) = &self.files else { return Ok(()) };
        files.check().inspect_err(|_| {
            if files.lacks_log_only() && self.is_checkpointed.set(()).is_ok() {
                self.checkpoint_deleted_log();
            }
        })
    }

    /// The write-ahead log was deleted but is still open here: checkpoints it, so that acknowledged commits reach the database.
    fn checkpoint_deleted_log(&self) {
        let saved = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
        if saved.is_ok_and(|busy| busy == 0) {
            self.health.note("contains all commits of its deleted write-ahead log");
        }
    }

    /// The write-ahead log may contain the complete frames of a failed COMMIT, and recovery after a crash would treat them as
    /// committed. The next commit overwrites them, so this makes one immediately.
    fn overwrite_failed_commit(&self, fault: &FileFault) {
        if !fault.may_leave_frames() || !self.try_begin().unwrap_or(false) {
            return;
        }
        let changed = self.execute("UPDATE numbers SET last = last + 1");
        let _ = changed.and_then(|()| self.execute("COMMIT"));
        if !self.conn.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), FileFault> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(|error| FileFault::of(&self.path, error))
    }
}

const BEGIN: &str = "BEGIN IMMEDIATE";
