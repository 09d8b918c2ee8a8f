//! Writing: one connection writes, and one thread commits whatever is queued for it as one transaction. A job that comes
//! alone, from a thread that has nothing else to do, is done there: a hand-over to the thread and back costs more than all
//! else that a job does.
//!
//! **Invariants.** A job is answered after the COMMIT that holds it, never before. A job that fails leaves nothing
//! behind and harms no other of its batch. A job that was queued runs to its end, whoever still waits for it.
//! The thread ends when the last handle is gone and the queue is empty; a panic inside a job does not end it.
//! No worker of a runtime is ever blocked, and only the thread waits for another process.

use super::{
    Options,
    fault::{Failure, Outcome, told},
};
use crate::{Error, Result};
use rusqlite::Connection;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task,
    time::timeout,
};

#[derive(Debug)]
pub(super) struct Writer {
    options: Options,
    jobs: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    desk: Arc<Mutex<Desk>>,
    /// `None` only while it is being dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(conn: Connection, path: PathBuf, options: Options) -> io::Result<Self> {
        let (queue, arriving) = mpsc::channel();
        let desk = Desk { conn, path, busy_timeout: options.busy_timeout };
        let desk = Arc::new(Mutex::new(desk));
        let own = Arc::clone(&desk);
        let thread =
            thread::Builder::new().name("session-writer".into()).spawn(move || serve(&own, &arriving))?;
        Ok(Self {
            jobs: Arc::new(Semaphore::new(options.queue_jobs.max(1))),
            bytes: Arc::new(Semaphore::new(options.queue_bytes())),
            options,
            desk,
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and answers when it is durable. `work` may be run twice, the first time in vain:
    /// it changes nothing but the database. `size` is about the number of bytes that it holds on to.
    pub(super) async fn write<T, W>(&self, size: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Outcome<T> + Send + 'static,
    {
        let room = self.room(size).await?;
        let (answer, answered) = oneshot::channel();
        let job = Task { work, outcome: None, answer, _room: room };
        if let Some(job) = self.at_once(Box::new(job)) {
            let queue = self.queue.as_ref().ok_or(Error::Closed)?;
            queue.send(job).map_err(|_| Error::Closed)?;
        }
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Does the job here and now, or gives it back if it is not alone, or if others need this thread.
    fn at_once(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if self.waiting() > 1 || !has_nothing_else_to_do() {
            return Some(job);
        }
        match self.desk.try_lock() {
            Ok(desk) => desk.at_once(job),
            Err(_) => Some(job),
        }
    }

    /// A place in the queue. A job larger than the whole queue is admitted when it is the only one.
    async fn room(&self, size: usize) -> Result<Room> {
        let bytes = u32::try_from(size.clamp(1, self.options.queue_bytes())).unwrap_or(u32::MAX);
        let places = async {
            let job = Arc::clone(&self.jobs).acquire_owned().await?;
            let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await?;
            Ok(Room { _job: job, _bytes: bytes })
        };
        match timeout(self.options.queue_wait, places).await {
            Ok(places) => places.map_err(|_: tokio::sync::AcquireError| Error::Closed),
            Err(_) => Err(Error::QueueFull { waiting: self.waiting() }),
        }
    }

    fn waiting(&self) -> usize {
        self.options.queue_jobs.max(1) - self.jobs.available_permits()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread catches what its jobs throw; there is nobody left to tell of anything else.
            let _ = thread.join();
        }
    }
}

/// Whether this thread drives one future and no more: it is no worker, and the runtime has workers for everything else.
fn has_nothing_else_to_do() -> bool {
    let workers =
        || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    task::try_id().is_none() && workers()
}

/// Given back when the job is answered.
#[derive(Debug)]
struct Room {
    _job: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

trait Job: Send {
    /// Does the work inside the open transaction. `false` if that transaction must not be committed.
    fn run(&mut self, conn: &Connection) -> bool;

    /// Tells what `run` came to.
    fn answer(self: Box<Self>, desk: &Desk);

    /// Tells that nothing was stored.
    fn fail(self: Box<Self>, error: Error);
}

impl std::fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

struct Task<T, W> {
    work: W,
    outcome: Option<Outcome<T>>,
    answer: oneshot::Sender<Result<T>>,
    _room: Room,
}

impl<T: Send, W: Fn(&Connection) -> Outcome<T> + Send> Job for Task<T, W> {
    fn run(&mut self, conn: &Connection) -> bool {
        let before = conn.total_changes();
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(conn))).unwrap_or(Err(Failure::Panicked));
        let sound = match &outcome {
            Ok(_) => true,
            // A refusal that came before the first change needs no rollback; nearly all do.
            Err(Failure::Refused(_)) => conn.total_changes() == before,
            Err(Failure::Sql(_) | Failure::Panicked) => false,
        };
        self.outcome = Some(outcome);
        sound
    }

    fn answer(self: Box<Self>, desk: &Desk) {
        let outcome = self.outcome.unwrap_or(Err(Failure::Refused(Error::Closed)));
        // Who has gone away does not hear it; what was stored stays stored.
        let _ = self.answer.send(outcome.map_err(|failure| failure.at(&desk.path)));
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}

/// What ended a transaction other than its COMMIT.
enum Undone {
    /// A job that must be alone with its failure.
    ByJob,
    /// SQLite, at COMMIT or ROLLBACK.
    BySqlite(rusqlite::Error),
}

/// What is queued. Callers that were just answered tend to come back at once: while fewer came than the last time,
/// they get the processor, and the wait ends as soon as that brings nobody. A lone caller never waits.
/// Places in the queue are given back with the answers, so a batch is never larger than the queue.
fn gather(first: Box<dyn Job>, arriving: &mpsc::Receiver<Box<dyn Job>>, usual: usize) -> Vec<Box<dyn Job>> {
    let mut batch = vec![first];
    batch.extend(arriving.try_iter());
    while batch.len() < usual {
        let before = batch.len();
        thread::yield_now();
        batch.extend(arriving.try_iter());
        if batch.len() == before {
            break;
        }
    }
    batch
}

/// The thread's life.
fn serve(desk: &Mutex<Desk>, arriving: &mpsc::Receiver<Box<dyn Job>>) {
    let mut usual = 1;
    while let Ok(first) = arriving.recv() {
        let desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = gather(first, arriving, usual);
        usual = batch.len();
        desk.settle(batch);
    }
}

/// Where one writes at a time.
#[derive(Debug)]
struct Desk {
    conn: Connection,
    path: PathBuf,
    busy_timeout: Duration,
}

impl Desk {
    /// Does a job on the thread of who brings it, or gives it back if another process is in the way.
    fn at_once(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let begun = self.conn.busy_timeout(Duration::ZERO).and_then(|()| self.begin());
        // Whatever it was, the thread will meet it again, and wait or tell.
        if self.conn.busy_timeout(self.busy_timeout).and(begun).is_err() {
            return Some(job);
        }
        self.conclude(vec![job]);
        None
    }

    fn settle(&self, batch: Vec<Box<dyn Job>>) {
        match self.begin() {
            Ok(()) => self.conclude(batch),
            Err(error) => self.fail(batch, error),
        }
    }

    /// Runs all jobs in the open transaction; if one of them spoils it, each in its own. A savepoint around every job
    /// would do the same and cost a copy of each touched page, for every job and not only for the bad one.
    fn conclude(&self, mut batch: Vec<Box<dyn Job>>) {
        match self.transaction(&mut batch) {
            Ok(()) => batch.into_iter().for_each(|job| job.answer(self)),
            Err(Undone::BySqlite(error)) => self.fail(batch, error),
            Err(Undone::ByJob) if batch.len() == 1 => batch.into_iter().for_each(|job| job.answer(self)),
            Err(Undone::ByJob) => batch.into_iter().for_each(|job| self.settle(vec![job])),
        }
    }

    fn fail(&self, batch: Vec<Box<dyn Job>>, error: rusqlite::Error) {
        let error = Arc::new(error);
        for job in batch {
            job.fail(told(&self.path, &error));
        }
    }

    /// Takes the write lock at once: a transaction that begins as a reader cannot wait for it.
    fn begin(&self) -> rusqlite::Result<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    fn transaction(&self, jobs: &mut [Box<dyn Job>]) -> std::result::Result<(), Undone> {
        let sound = jobs.iter_mut().all(|job| job.run(&self.conn));
        let ended = if sound { self.execute("COMMIT").map_err(Undone::BySqlite) } else { Err(Undone::ByJob) };
        // Some failures end the transaction by themselves.
        if !self.conn.is_autocommit() {
            self.execute("ROLLBACK").map_err(Undone::BySqlite)?;
        }
        ended
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }
}

#[cfg(test)]
mod tests;
