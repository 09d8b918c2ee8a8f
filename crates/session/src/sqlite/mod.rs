//! The SQLite backend: one file, one write connection, a pool of read connections.
//!
//! | module | contents |
//! |---|---|
//! | `writer` | the write queue and its group commit |
//! | `readers` | the pool of read connections |
//! | `connect`, `migrate` | opening a file, schema migrations |
//! | `go_schema` | recognising a database of Lango in Go |
//! | `read_only` | reading a file that cannot be written |
//! | `files` | whether the files at the paths are still the open ones |
//! | `commit`, `state`, `log` | appending to the log, the state, reading the log |
//! | `runs`, `idempotency_keys`, `owners`, `drafts` | runs with queue and lease, idempotency keys, owners and take-over, drafts |
//! | `process` | the advisory lock that proves that a process is alive |
//! | `ports` | the traits of this crate, wired to the modules above |
//! | `sessions`, `artifacts` | the tables of these names |
//! | `fault` | mapping SQLite codes to [`Error`] |
//!
//! **Invariants.** Every change goes through the writer, so writes of one process never contend for SQLite's lock; the writer
//! waits for other processes. An acknowledged write survives SIGKILL, and a power cut if the disk honours fsync.

mod artifacts;
mod commit;
mod connect;
mod drafts;
mod encoded_commit;
mod fault;
mod files;
pub(crate) mod go_schema;
mod idempotency_keys;
mod log;
mod migrate;
mod owners;
mod ports;
mod process;
mod read_only;
mod readers;
mod recipes;
mod runs;
mod sessions;
mod settled;
mod state;
mod writer;

#[cfg(test)]
mod plans;

use crate::{
    Error, Result, Seq, SessionKey, TailBudget,
    health::{Reporter, StoreHealth},
};
use connect::ReadMode;
use fault::{JobError, JobResult};
use files::OpenFiles;
use lock::LockExt;
use process::{LockDirectory, ProcessLock};
use readers::Readers;
use rusqlite::{Connection, types::Type};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;
use writer::Writer;

#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of writes in the queue, including those that run.
    pub queue_jobs: usize,
    /// Maximum size of the queue in bytes, approximately.
    pub queue_bytes: usize,
    /// How long a write waits for room in the queue before it fails with [`Error::QueueFull`]. Longer than `busy_timeout`,
    /// because another process that holds the write lock may be why the queue is full.
    pub queue_wait: Duration,
    /// How long a call waits for another process before it fails with [`Error::Locked`].
    pub busy_timeout: Duration,
    /// Maximum number of concurrent reads.
    pub readers: usize,
    /// Commits an uncontended write on the caller's thread, which blocks it for an fsync. For a program that drives one future
    /// with `block_on` on a multi-thread runtime and nothing beside it; a server leaves it off. Calls from inside a spawned task
    /// use the writer thread in any case.
    pub inline_commits: bool,
    /// Maximum size of the file. A write beyond it fails with [`Error::DiskFull`].
    pub max_bytes: Option<u64>,
    /// Called when the file fails, with the cause and the path, and when it works again.
    pub report: Option<Reporter>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_jobs: 1024,
            queue_bytes: 64 * 1024 * 1024,
            queue_wait: Duration::from_secs(45),
            busy_timeout: Duration::from_secs(40),
            readers: 4,
            inline_commits: false,
            max_bytes: None,
            report: None,
        }
    }
}

impl Options {
    /// Limited to the permits of a semaphore.
    fn queue_bytes(&self) -> usize {
        self.queue_bytes.clamp(1, Semaphore::MAX_PERMITS)
    }
}

/// Clones share the file. Dropping the last clone blocks until all queued writes are committed.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    db: Arc<Database>,
}

/// Fields are dropped in order: the writer ends before the readers.
#[derive(Debug)]
struct Database {
    /// `None` if the store was opened read-only.
    writer: Option<Writer>,
    readers: Readers,
    path: PathBuf,
    locks: LockDirectory,
    /// Acquired by the first owner claim: a process that only reads needs none.
    process: Mutex<Option<Arc<ProcessLock>>>,
    misses_log: bool,
}

impl Database {
    fn writer(&self) -> Result<&Writer> {
        let source = || "it was opened read-only".into();
        self.writer.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path.clone(), source: source() })
    }

    fn process(&self) -> Result<Arc<ProcessLock>> {
        self.writer()?;
        let mut process = self.process.locked();
        if let Some(lock) = &*process {
            return Ok(Arc::clone(lock));
        }
        let lock = Arc::new(self.locks.acquire()?);
        *process = Some(Arc::clone(&lock));
        Ok(lock)
    }

    async fn write<T, W>(&self, size: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> JobResult<T> + Send + 'static,
    {
        self.writer()?.write(size, work).await
    }

    /// Like [`write`](Self::write), for work on one session: an error names the session if it is damaged.
    async fn write_in<T, W>(&self, key: SessionKey, size: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Connection, &SessionKey) -> JobResult<T> + Send + 'static,
    {
        let is_damaged = |conn: &Connection, key: &SessionKey| {
            // The page that cannot be written may be shared by all sessions.
            let own = log::load(conn, key, TailBudget { tokens: u64::MAX, rows: PROBED_ROWS });
            matches!(own, Err(JobError::Sql(error)) if fault::is_damage(&error))
        };
        self.write(size, move |conn| name_damage(conn, &key, work(conn, &key), is_damaged)).await
    }

    /// Reads from one session: an error names the session if it is damaged.
    async fn read_in<T, W>(&self, key: SessionKey, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, &SessionKey) -> JobResult<T> + Send + 'static,
    {
        self.readers.read(move |conn| name_damage(conn, &key, work(conn, &key), |_, _| true)).await
    }
}

/// How many rows of a session are read to check whether it is damaged.
const PROBED_ROWS: usize = 64;

/// Attributes damage to a session. If the session cannot be found, or its own rows are readable, the file is damaged.
fn name_damage<T>(
    conn: &Connection,
    key: &SessionKey,
    outcome: JobResult<T>,
    is_damaged: impl FnOnce(&Connection, &SessionKey) -> bool,
) -> JobResult<T> {
    match outcome {
        Err(JobError::Sql(error))
            if fault::is_unreadable(&error)
                || (fault::is_damage(&error) && sessions::is_known(conn, key) && is_damaged(conn, key)) =>
        {
            Err(JobError::damaged(key, error))
        }
        other => other,
    }
}

impl SqliteStore {
    /// Opens the file, creates it if it is missing, and migrates its schema. Blocks.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        connect::make_private(&path)?;
        let failed = |source: std::io::Error| Error::Open { path: path.clone(), source: source.into() };
        let conn = connect::writer(&path, &options)?;
        migrate::migrate(&conn, &path)?;
        let files = OpenFiles::identify(&path, &conn).map_err(|fault| fault.to_error())?;
        // From here on the writer waits for other processes itself.
        conn.busy_timeout(Duration::ZERO).map_err(|error| JobError::from(error).at(&path))?;
        let health = Arc::new(StoreHealth::new(path.clone(), options.report));
        let location = (path.clone(), Some(files.clone()));
        let writer = Writer::start(conn, location, options.clone(), Arc::clone(&health)).map_err(failed)?;
        let readers = Readers::new((path.clone(), files), (ReadMode::Shared, None), options, health);
        Ok(Self::new(Some(writer), readers, path, false))
    }

    /// Opens an existing file for reading and writing if possible, otherwise read-only: on a full disk, on a read-only file
    /// system, or without write permission. A read-only store refuses every write with [`Error::ReadOnly`].
    pub fn open_for_reading(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        let refused = match Self::open(path, options.clone()) {
            Err(error) if read_only::may_help(&error) => error,
            other => return other,
        };
        let Some(access) = read_only::find(path, &options)? else { return Err(refused) };
        let files = OpenFiles::database_only(path, &access.conn).map_err(|fault| fault.to_error())?;
        let health = Arc::new(StoreHealth::new(path.to_path_buf(), options.report));
        let mode = (access.mode, Some(access.conn));
        let readers = Readers::new((path.to_path_buf(), files), mode, options, health);
        Ok(Self::new(None, readers, path.to_path_buf(), access.misses_log))
    }

    fn new(writer: Option<Writer>, readers: Readers, path: PathBuf, misses_log: bool) -> Self {
        let locks = LockDirectory::beside(&path);
        let process = Mutex::default();
        Self { db: Arc::new(Database { writer, readers, path, locks, process, misses_log }) }
    }

    pub fn path(&self) -> &Path {
        &self.db.path
    }

    /// Whether the newest commits may be missing: the store is read-only and its write-ahead log could not be read.
    pub fn misses_log(&self) -> bool {
        self.db.misses_log
    }
}

/// Clamped to the integers of SQLite.
fn bounded(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn unreadable(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}
