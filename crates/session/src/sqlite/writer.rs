//! Group commit: one connection writes, and the writer thread commits all queued jobs as one transaction.
//!
//! Fast path: with [`Options::inline_commits`], if the queue is empty and the caller is not a runtime worker, the transaction
//! runs on the caller's thread. That saves the hand-over to the writer thread and back, which costs more than the job itself.
//!
//! **Invariants.**
//!
//! - A job is answered after the COMMIT that contains it, and only if the database is still the file at its path.
//! - A job that fails before COMMIT leaves no change behind, and the other jobs of its batch run again, each in its own
//!   transaction.
//! - If the COMMIT of a batch of several jobs fails, each job runs again in its own transaction. If the file fails in one
//!   of these as well, that job and all remaining jobs of the batch fail with the error: a disk that keeps failing is tried
//!   twice per batch. A batch of one job is not retried.
//! - A queued job runs to its end even if its caller dropped the future.
//! - The thread ends when the last handle is dropped and the queue is empty. A panic inside a job does not end it.
//! - A runtime worker is never blocked, and only the writer thread waits for the write lock of another process.

mod connection;

use super::{
    Options,
    fault::{FileFault, JobError, JobResult},
    files::OpenFiles,
};
use crate::{Error, Result, health::StoreHealth};
use connection::WriteConnection;
use lock::LockExt;
use rusqlite::Connection;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
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

/// The backlog holds at most this many times the bytes of the queue.
const BACKLOG_FACTOR: usize = 4;
/// Maximum number of jobs in the backlog.
const BACKLOG_JOBS: usize = 16_384;

#[derive(Debug)]
pub(super) struct Writer {
    options: Options,
    jobs: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    backlog: Backlog,
    connection: Arc<Mutex<WriteConnection>>,
    closing: Arc<OnceLock<Instant>>,
    /// `None` only during drop.
    queue: Option<mpsc::Sender<Box<dyn WriteJob>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// `files` is `None` for an in-memory database.
    pub(super) fn start(
        conn: Connection,
        (path, files): (PathBuf, Option<OpenFiles>),
        options: Options,
        health: Arc<StoreHealth>,
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

    /// Runs `work` in a transaction and returns when it is durable. `work` may run twice, after a rollback, so it must have no
    /// side effect outside the database. `size` is its approximate size in bytes.
    pub(super) async fn write<T, W>(&self, size: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> JobResult<T> + Send + 'static,
    {
        let permits = self.acquire(size).await?;
        let (answer, answered) = oneshot::channel();
        let job = WriteTask { work, outcome: None, answer, _permits: permits };
        if let Some(job) = self.try_inline(Box::new(job)) {
            let queue = self.queue.as_ref().ok_or(Error::Closed)?;
            queue.send(job).map_err(|_| Error::Closed)?;
        }
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Runs the job on the caller's thread. Returns it if inline commits are off, other jobs are queued, the caller must not
    /// block, or the connection is in use.
    fn try_inline(&self, job: Box<dyn WriteJob>) -> Option<Box<dyn WriteJob>> {
        if !self.options.inline_commits || self.queued() > 1 || !may_block() {
            return Some(job);
        }
        match self.connection.try_lock() {
            Ok(connection) => connection.try_run(job),
            Err(_) => Some(job),
        }
    }

    /// Back-pressure: acquires room in the bounded queue. A job larger than the whole queue is admitted when it is the only one.
    ///
    /// While the queue is full, the job waits in the backlog for up to [`Options::queue_wait`]. If the backlog is full, too,
    /// the job is refused immediately: this bounds the memory of waiting jobs.
    async fn acquire(&self, size: usize) -> Result<QueuePermits> {
        let most = self.options.queue_bytes();
        let bytes = u32::try_from(size.clamp(1, most)).unwrap_or(u32::MAX);
        if let Ok(job) = Arc::clone(&self.jobs).try_acquire_owned()
            && let Ok(bytes) = Arc::clone(&self.bytes).try_acquire_many_owned(bytes)
        {
            return Ok(QueuePermits { _job: job, _bytes: bytes });
        }
        let full = || Error::QueueFull { waiting: self.queued() + self.backlog.jobs.load(Ordering::Relaxed) };
        let _slot = self.backlog.join(size, most.saturating_mul(BACKLOG_FACTOR)).ok_or_else(full)?;
        let permits = async {
            let job = Arc::clone(&self.jobs).acquire_owned().await?;
            let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await?;
            Ok(QueuePermits { _job: job, _bytes: bytes })
        };
        match timeout(self.options.queue_wait, permits).await {
            Ok(permits) => permits.map_err(|_: tokio::sync::AcquireError| Error::Closed),
            Err(_) => Err(Error::QueueFull { waiting: self.queued() }),
        }
    }

    fn queued(&self) -> usize {
        self.options.queue_jobs.max(1) - self.jobs.available_permits()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.closing.set(Instant::now());
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of its jobs. A panic of the thread itself has no receiver during drop.
            let _ = thread.join();
        }
    }
}

/// Jobs that wait for room in the queue.
#[derive(Debug, Default)]
struct Backlog {
    jobs: AtomicUsize,
    bytes: AtomicUsize,
}

/// One job in the backlog; leaves it on drop.
struct BacklogSlot<'a> {
    backlog: &'a Backlog,
    bytes: usize,
}

impl Backlog {
    /// `None` if the backlog is full. A job may have any size if the backlog is empty.
    fn join(&self, bytes: usize, most_bytes: usize) -> Option<BacklogSlot<'_>> {
        let jobs = self.jobs.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let slot = BacklogSlot { backlog: self, bytes };
        let has_room = jobs < BACKLOG_JOBS && (before == 0 || before.saturating_add(bytes) <= most_bytes);
        has_room.then_some(slot)
    }
}

impl Drop for BacklogSlot<'_> {
    fn drop(&mut self) {
        self.backlog.jobs.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Whether the caller may block its thread: true on the `block_on` thread of a multi-thread runtime, false inside a spawned
/// task and on a current-thread runtime, where the same thread drives timers and sockets.
fn may_block() -> bool {
    let has_workers =
        || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    task::try_id().is_none() && has_workers()
}

/// Room in the queue, released when the job is answered.
#[derive(Debug)]
struct QueuePermits {
    _job: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

trait WriteJob: Send {
    /// Runs inside the open transaction. Returns `false` if the transaction must be rolled back.
    fn run(&mut self, conn: &Connection) -> bool;

    /// Sends the result of `run` to the caller.
    fn answer(self: Box<Self>, connection: &WriteConnection);

    /// Sends an error to the caller: nothing was stored.
    fn fail(self: Box<Self>, fault: &FileFault, connection: &WriteConnection);
}

impl std::fmt::Debug for dyn WriteJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriteJob")
    }
}

struct WriteTask<T, W> {
    work: W,
    outcome: Option<JobResult<T>>,
    answer: oneshot::Sender<Result<T>>,
    _permits: QueuePermits,
}

impl<T, W> WriteTask<T, W> {
    fn send(self, result: Result<T>, connection: &WriteConnection) {
        if let Err(error) = &result {
            connection.report(error);
        }
        // The caller may have dropped the receiver; the commit is durable.
        let _ = self.answer.send(result);
    }
}

impl<T: Send, W: Fn(&Connection) -> JobResult<T> + Send> WriteJob for WriteTask<T, W> {
    fn run(&mut self, conn: &Connection) -> bool {
        let before = conn.total_changes();
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(conn))).unwrap_or(Err(JobError::Panicked));
        let is_sound = match &outcome {
            Ok(_) => true,
            // A refusal before the first change needs no rollback. This is the common case.
            Err(JobError::Refused(_)) => conn.total_changes() == before,
            Err(JobError::Sql(_) | JobError::Damaged(_) | JobError::Panicked) => false,
        };
        self.outcome = Some(outcome);
        is_sound
    }

    fn answer(mut self: Box<Self>, connection: &WriteConnection) {
        let outcome = self.outcome.take().unwrap_or(Err(JobError::Refused(Error::Closed)));
        let result = outcome.map_err(|failure| failure.at(connection.path()));
        self.send(result, connection);
    }

    fn fail(self: Box<Self>, fault: &FileFault, connection: &WriteConnection) {
        self.send(Err(fault.to_error()), connection);
    }
}

/// Collects a batch. Callers that were just answered often write again immediately: while the batch is smaller than the last
/// one, the thread yields to them, and stops as soon as a yield adds no job. A single caller never waits. The queue's permits
/// bound the size of a batch.
fn gather(
    first: Box<dyn WriteJob>,
    arriving: &mpsc::Receiver<Box<dyn WriteJob>>,
    last_len: usize,
) -> Vec<Box<dyn WriteJob>> {
    let mut batch = vec![first];
    batch.extend(arriving.try_iter());
    while batch.len() < last_len {
        let before = batch.len();
        thread::yield_now();
        batch.extend(arriving.try_iter());
        if batch.len() == before {
            break;
        }
    }
    batch
}

/// The main loop of the writer thread.
fn serve(connection: &Mutex<WriteConnection>, arriving: &mpsc::Receiver<Box<dyn WriteJob>>) {
    let mut last_len = 1;
    while let Ok(first) = arriving.recv() {
        let connection = connection.locked();
        let batch = gather(first, arriving, last_len);
        last_len = batch.len();
        connection.commit(batch);
    }
}

#[cfg(test)]
mod tests;
