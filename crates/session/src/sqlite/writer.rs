//! Writing: one connection writes, and one thread commits whatever is queued for it as one transaction. If the queue is empty
//! and the caller's thread is no worker of a runtime, the transaction runs on the caller's thread: handing a job to the thread
//! and back costs more than all else that a job does.
//!
//! **Invariants.** A job is answered after the COMMIT that holds it, never before, and only if the database is still the file
//! at its path. A job that fails leaves nothing behind and harms no other of its batch. If a COMMIT fails, its jobs run again,
//! each in a transaction of its own, until the disk fails a second time: a single failed fsync fails no batch, and a disk
//! that fails for good is asked twice for a batch, not once for each job. A job that was queued runs to its end, whoever still
//! waits for it. The thread ends when the last handle is gone and the queue is empty; a panic inside a job does not end it.
//! No worker of a runtime is ever blocked, and only the thread waits for another process.

mod connection;

use super::{
    Options,
    fault::{Failure, Fault, Outcome},
    files::OpenFiles,
    health::Health,
};
use crate::{Error, Result};
use connection::WriteConnection;
use rusqlite::Connection;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Instant,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task,
    time::timeout,
};

/// How many times the queue's bytes may wait for room in it.
const BACKLOG: usize = 4;
/// How many jobs may wait for room in the queue.
const BACKLOG_JOBS: usize = 16_384;

#[derive(Debug)]
pub(super) struct Writer {
    options: Options,
    jobs: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    backlog: Backlog,
    connection: Arc<Mutex<WriteConnection>>,
    closing: Arc<OnceLock<Instant>>,
    /// `None` only while it is being dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// `files` are `None` for a database that is no file.
    pub(super) fn start(
        conn: Connection,
        (path, files): (PathBuf, Option<OpenFiles>),
        options: Options,
        health: Arc<Health>,
    ) -> io::Result<Self> {
        let (queue, arriving) = mpsc::channel();
        let closing = Arc::new(OnceLock::new());
        let connection =
            WriteConnection::new(conn, (path, files), (options.busy_timeout, Arc::clone(&closing)), health);
        let connection = Arc::new(Mutex::new(connection));
        let own = Arc::clone(&connection);
        let thread =
            thread::Builder::new().name("session-writer".into()).spawn(move || serve(&own, &arriving))?;
        Ok(Self {
            jobs: Arc::new(Semaphore::new(options.queue_jobs.max(1))),
            bytes: Arc::new(Semaphore::new(options.queue_bytes())),
            backlog: Backlog::default(),
            options,
            connection,
            closing,
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

    /// Runs the job on this thread, or gives it back if it is not alone, or if others need this thread.
    fn at_once(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if self.waiting() > 1 || !has_nothing_else_to_do() {
            return Some(job);
        }
        match self.connection.try_lock() {
            Ok(connection) => connection.at_once(job),
            Err(_) => Some(job),
        }
    }

    /// A place in the queue. A job larger than the whole queue is admitted when it is the only one.
    ///
    /// A queue that is full because another process holds the write lock is waited for, and so the memory that waits is
    /// bounded, too: beyond [`BACKLOG`] a job is refused at once.
    async fn room(&self, size: usize) -> Result<Room> {
        let most = self.options.queue_bytes();
        let bytes = u32::try_from(size.clamp(1, most)).unwrap_or(u32::MAX);
        if let Ok(job) = Arc::clone(&self.jobs).try_acquire_owned()
            && let Ok(bytes) = Arc::clone(&self.bytes).try_acquire_many_owned(bytes)
        {
            return Ok(Room { _job: job, _bytes: bytes });
        }
        let full =
            || Error::QueueFull { waiting: self.waiting() + self.backlog.jobs.load(Ordering::Relaxed) };
        let _waiting = self.backlog.join(size, most.saturating_mul(BACKLOG)).ok_or_else(full)?;
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
        let _ = self.closing.set(Instant::now());
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread catches what its jobs throw; there is nobody left to tell of anything else.
            let _ = thread.join();
        }
    }
}

/// What waits for room in the queue.
#[derive(Debug, Default)]
struct Backlog {
    jobs: AtomicUsize,
    bytes: AtomicUsize,
}

struct Waiting<'a> {
    backlog: &'a Backlog,
    bytes: usize,
}

impl Backlog {
    /// `None` if as many jobs, or as many bytes, wait already. A job alone may be of any size.
    fn join(&self, bytes: usize, most_bytes: usize) -> Option<Waiting<'_>> {
        let jobs = self.jobs.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let waiting = Waiting { backlog: self, bytes };
        let has_room = jobs < BACKLOG_JOBS && (before == 0 || before.saturating_add(bytes) <= most_bytes);
        has_room.then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.backlog.jobs.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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
    fn answer(self: Box<Self>, connection: &WriteConnection);

    /// Tells that nothing was stored.
    fn fail(self: Box<Self>, fault: &Fault, connection: &WriteConnection);
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

impl<T, W> Task<T, W> {
    fn tell(self, result: Result<T>, connection: &WriteConnection) {
        if let Err(error) = &result {
            connection.report(error);
        }
        // Who has gone away does not hear it; what was stored stays stored.
        let _ = self.answer.send(result);
    }
}

impl<T: Send, W: Fn(&Connection) -> Outcome<T> + Send> Job for Task<T, W> {
    fn run(&mut self, conn: &Connection) -> bool {
        let before = conn.total_changes();
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(conn))).unwrap_or(Err(Failure::Panicked));
        let sound = match &outcome {
            Ok(_) => true,
            // A refusal that came before the first change needs no rollback; nearly all do.
            Err(Failure::Refused(_)) => conn.total_changes() == before,
            Err(Failure::Sql(_) | Failure::Damaged(_) | Failure::Panicked) => false,
        };
        self.outcome = Some(outcome);
        sound
    }

    fn answer(mut self: Box<Self>, connection: &WriteConnection) {
        let outcome = self.outcome.take().unwrap_or(Err(Failure::Refused(Error::Closed)));
        let result = outcome.map_err(|failure| failure.at(connection.path()));
        self.tell(result, connection);
    }

    fn fail(self: Box<Self>, fault: &Fault, connection: &WriteConnection) {
        self.tell(Err(fault.to_error()), connection);
    }
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
fn serve(connection: &Mutex<WriteConnection>, arriving: &mpsc::Receiver<Box<dyn Job>>) {
    let mut usual = 1;
    while let Ok(first) = arriving.recv() {
        let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = gather(first, arriving, usual);
        usual = batch.len();
        connection.commit(batch);
    }
}

#[cfg(test)]
mod tests;
