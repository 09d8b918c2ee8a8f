//! Writing: one thread owns the one connection that writes, and commits whatever is queued as one transaction.
//!
//! **Invariants.** A job is answered after the COMMIT that holds it, never before. A job that fails leaves nothing
//! behind and harms no other of its batch. A job that was queued runs to its end, whoever still waits for it.
//! The thread ends when the last handle is gone and the queue is empty; a panic inside a job does not end it.

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
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

#[derive(Debug)]
pub(super) struct Writer {
    options: Options,
    jobs: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    /// `None` only while it is being dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(conn: Connection, path: PathBuf, options: Options) -> io::Result<Self> {
        let (queue, arriving) = mpsc::channel();
        let desk = Desk { conn, path };
        let thread =
            thread::Builder::new().name("session-writer".into()).spawn(move || desk.serve(&arriving))?;
        Ok(Self {
            jobs: Arc::new(Semaphore::new(options.queue_jobs.max(1))),
            bytes: Arc::new(Semaphore::new(options.queue_bytes())),
            options,
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
        let queue = self.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(Box::new(job)).map_err(|_| Error::Closed)?;
        answered.await.unwrap_or(Err(Error::Closed))
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
    /// SQLite, at BEGIN or COMMIT.
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

/// The writer thread's side.
struct Desk {
    conn: Connection,
    path: PathBuf,
}

impl Desk {
    fn serve(&self, arriving: &mpsc::Receiver<Box<dyn Job>>) {
        let mut usual = 1;
        while let Ok(first) = arriving.recv() {
            let batch = gather(first, arriving, usual);
            usual = batch.len();
            self.settle(batch);
        }
    }

    /// Runs all jobs in one transaction; if one of them spoils it, each in its own. A savepoint around every job
    /// would do the same and cost a copy of each touched page, for every job and not only for the bad one.
    fn settle(&self, mut batch: Vec<Box<dyn Job>>) {
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

    fn transaction(&self, jobs: &mut [Box<dyn Job>]) -> std::result::Result<(), Undone> {
        // Takes the write lock at once: a transaction that begins as a reader cannot wait for it.
        self.execute("BEGIN IMMEDIATE").map_err(Undone::BySqlite)?;
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
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    fn writer() -> Writer {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
        Writer::start(conn, "test.db".into(), Options::default()).unwrap()
    }

    fn insert(table: &'static str) -> impl Fn(&Connection) -> Outcome<usize> {
        move |conn| Ok(conn.execute(&format!("INSERT INTO {table} (id) VALUES (NULL)"), [])?)
    }

    async fn count(writer: &Writer, table: &'static str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        writer.write(1, move |conn| Ok(conn.query_row(&sql, [], |row| row.get(0))?)).await.unwrap()
    }

    #[tokio::test]
    async fn a_job_that_panics_is_undone_and_the_thread_goes_on() {
        let writer = writer();
        let panics = |conn: &Connection| -> Outcome<()> {
            insert("parent")(conn)?;
            panic!("a bug in a job")
        };
        assert!(matches!(writer.write(1, panics).await, Err(Error::Backend(_))));
        assert_eq!(count(&writer, "parent").await, 0);
        writer.write(1, insert("parent")).await.unwrap();
        assert_eq!(count(&writer, "parent").await, 1);
    }

    #[tokio::test]
    async fn a_refusal_that_comes_after_a_change_undoes_it() {
        let writer = writer();
        let refuses = |conn: &Connection| -> Outcome<()> {
            insert("parent")(conn)?;
            Err(Error::Closed.into())
        };
        assert!(matches!(writer.write(1, refuses).await, Err(Error::Closed)));
        assert_eq!(count(&writer, "parent").await, 0);
    }

    /// Keeps the thread busy until the other end is dropped, so that what comes next is one batch.
    fn busy(until: mpsc::Receiver<()>) -> impl Fn(&Connection) -> Outcome<()> + Send {
        let until = std::sync::Mutex::new(until);
        move |_| {
            let _ = until.lock().unwrap().recv();
            Ok(())
        }
    }

    #[tokio::test]
    async fn nobody_of_a_batch_is_told_of_success_when_its_commit_fails() {
        let writer = writer();
        let (release, until) = mpsc::channel();
        let mut plug = Box::pin(writer.write(1, busy(until)));
        let mut good = Box::pin(writer.write(1, insert("parent")));
        // Only COMMIT finds out that the parent is missing.
        let orphan = |conn: &Connection| Ok(conn.execute("INSERT INTO child (id) VALUES (42)", [])?);
        let mut bad = Box::pin(writer.write(1, orphan));
        let mut also_good = Box::pin(writer.write(1, insert("parent")));
        poll_fn(|context| {
            assert!(plug.as_mut().poll(context).is_pending());
            assert!(good.as_mut().poll(context).is_pending());
            assert!(bad.as_mut().poll(context).is_pending());
            assert!(also_good.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(release);
        // The plug may have begun a batch of its own, or be in this one.
        let _ = plug.await;
        let told = [good.await, bad.await, also_good.await];
        let stored = count(&writer, "parent").await;
        let successes = told.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(i64::try_from(successes).unwrap(), stored);
        assert!(told[1].is_err());
        assert_eq!(count(&writer, "child").await, 0);
    }
}
