//! The connection that writes: when a transaction begins, and what becomes of its jobs when it fails.

use super::Job;
use crate::{
    Error,
    sqlite::{
        fault::{Fault, injected, is_busy},
        files::OpenFiles,
        health::{Access, Health},
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

/// Between two attempts to get the write lock from another process.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A lock that another process holds for so long is reported.
const NOTICED: Duration = Duration::from_secs(3);
/// How long a store that is being closed waits for another process: who ends the program does not wait for the whole time.
const CLOSING_WAIT: Duration = Duration::from_secs(2);

/// Used by one thread at a time.
#[derive(Debug)]
pub(super) struct WriteConnection {
    conn: Connection,
    path: PathBuf,
    files: Option<OpenFiles>,
    /// How long another process is waited for.
    patience: Duration,
    /// Since when the store is being closed.
    closing: Arc<OnceLock<Instant>>,
    health: Arc<Health>,
    /// Set when the log was deleted and its content was saved.
    is_rescued: OnceLock<()>,
}

/// What ended a transaction other than its COMMIT.
enum Undone {
    /// A job that must be alone with its failure.
    ByJob,
    /// SQLite at COMMIT or ROLLBACK, or the file, which is not at its path any more.
    ByFault(Fault),
}

impl WriteConnection {
    pub(super) fn new(
        conn: Connection,
        (path, files): (PathBuf, Option<OpenFiles>),
        (patience, closing): (Duration, Arc<OnceLock<Instant>>),
        health: Arc<Health>,
    ) -> Self {
        Self { conn, path, files, patience, closing, health, is_rescued: OnceLock::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whoever operates the process of a job that failed.
    pub(super) fn report(&self, error: &Error) {
        self.health.failed(Access::Write, error);
    }

    /// Runs a job on the caller's thread, or gives it back if another process, or the file, is in the way: the thread meets
    /// the same and waits, or tells.
    pub(super) fn at_once(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        match self.try_begin() {
            Ok(true) => {
                self.run_alone(job);
                None
            }
            Ok(false) | Err(_) => Some(job),
        }
    }

    /// Runs all jobs in one transaction; if that fails, each in its own. A savepoint around every job would do the same and
    /// cost a copy of each touched page, for every job and not only for the bad one.
    pub(super) fn commit(&self, mut batch: Vec<Box<dyn Job>>) {
        if let Err(fault) = self.begin() {
            return batch.into_iter().for_each(|job| job.fail(&fault, self));
        }
        if batch.len() == 1 {
            return batch.into_iter().for_each(|job| drop(self.run_alone(job)));
        }
        match self.transaction(&mut batch) {
            Ok(()) => self.stored(batch),
            Err(Undone::ByJob | Undone::ByFault(_)) => self.commit_each(batch),
        }
    }

    /// Stops at a fault that the next job would meet, too.
    fn commit_each(&self, batch: Vec<Box<dyn Job>>) {
        let mut met: Option<Fault> = None;
        for job in batch {
            let fault = match met.take() {
                Some(fault) => Err(fault),
                None => self.begin(),
            };
            met = match fault {
                Ok(()) => self.run_alone(job),
                Err(fault) => {
                    job.fail(&fault, self);
                    Some(fault)
                }
            };
        }
    }

    /// Runs one job in the open transaction and answers it. The fault is one that other jobs would meet, too.
    fn run_alone(&self, mut job: Box<dyn Job>) -> Option<Fault> {
        match self.transaction(slice::from_mut(&mut job)) {
            Ok(()) => {
                self.stored(vec![job]);
                None
            }
            Err(Undone::ByJob) => {
                job.answer(self);
                None
            }
            Err(Undone::ByFault(fault)) => {
                self.overwrite_failed_commit(&fault);
                job.fail(&fault, self);
                fault.is_lasting().then_some(fault)
            }
        }
    }

    fn stored(&self, batch: Vec<Box<dyn Job>>) {
        self.health.succeeded(Access::Write);
        for job in batch {
            job.answer(self);
        }
    }

    fn transaction(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), Undone> {
        let is_sound = jobs.iter_mut().all(|job| job.run(&self.conn));
        let ended = if is_sound { self.end().map_err(Undone::ByFault) } else { Err(Undone::ByJob) };
        // Some failures end the transaction by themselves.
        if !self.conn.is_autocommit() {
            self.execute("ROLLBACK").map_err(Undone::ByFault)?;
        }
        ended?;
        // What went into another file than the one at the path is not stored.
        let files = self.files.as_ref();
        files.map_or(Ok(()), OpenFiles::check_database).map_err(Undone::ByFault)
    }

    fn end(&self) -> Result<(), Fault> {
        self.hit(Point::BeforeCommit)?;
        self.execute("COMMIT")?;
        self.hit(Point::AfterCommit)
    }

    fn hit(&self, point: Point) -> Result<(), Fault> {
        failpoint::hit(point).map_err(|fault| Fault::of(&self.path, injected(fault)))
    }

    /// Begins a transaction. Waits for another process that holds the write lock.
    fn begin(&self) -> Result<(), Fault> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        let mut is_noticed = false;
        loop {
            if self.try_begin()? {
                if is_noticed {
                    self.health.note(&format!("is free again after {:.0?}", began.elapsed()));
                }
                return Ok(());
            }
            if self.gives_up(began) {
                // Once more, for its error.
                return self.execute(BEGIN);
            }
            if began.elapsed() >= NOTICED && !is_noticed {
                is_noticed = true;
                self.health.note("is locked by another program; writes wait for it");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn gives_up(&self, began: Instant) -> bool {
        let is_closed = |closing: &Instant| closing.elapsed() >= CLOSING_WAIT;
        began.elapsed() >= self.patience || self.closing.get().is_some_and(is_closed)
    }

    /// `false` if another process holds the write lock.
    fn try_begin(&self) -> Result<bool, Fault> {
        self.hit(Point::BeforeBegin)?;
        self.check_files()?;
        if !self.conn.is_autocommit() {
            // The transaction before this one could not be rolled back.
            self.execute("ROLLBACK")?;
        }
        // Takes the write lock at once: a transaction that begins as a reader cannot wait for it.
        let begun = self.conn.prepare_cached(BEGIN).and_then(|mut begin| begin.execute([]));
        match begun {
            Ok(_) => Ok(true),
            Err(error) if is_busy(&error) => Ok(false),
            Err(error) => Err(Fault::of(&self.path, error)),
        }
    }

    fn check_files(&self) -> Result<(), Fault> {
        let Some(files) = &self.files else { return Ok(()) };
        files.check().inspect_err(|_| {
            if files.lacks_log_only() && self.is_rescued.set(()).is_ok() {
                self.rescue_log();
            }
        })
    }

    /// The log was deleted, and is still open here: what was acknowledged since the last checkpoint is copied into the database.
    fn rescue_log(&self) {
        let saved = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
        if saved.is_ok_and(|busy| busy == 0) {
            self.health.note("has all that was in its deleted write-ahead log");
        }
    }

    /// The frames of a COMMIT that failed may be in the write-ahead log, and complete: after a crash, whoever opens the file
    /// would take them for committed. The next commit overwrites them, so there is one at once.
    fn overwrite_failed_commit(&self, fault: &Fault) {
        if !fault.may_leave_frames() || !self.try_begin().unwrap_or(false) {
            return;
        }
        let changed = self.execute("UPDATE numbers SET last = last + 1");
        let _ = changed.and_then(|()| self.execute("COMMIT"));
        if !self.conn.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), Fault> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(|error| Fault::of(&self.path, error))
    }
}

const BEGIN: &str = "BEGIN IMMEDIATE";
