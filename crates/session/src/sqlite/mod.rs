//! The default store: one SQLite file, one connection that writes, a few that read.
//!
//! | read | for |
//! |---|---|
//! | `writer` | the queue, the group commit and what it promises |
//! | `readers` | the pool of connections that cannot write |
//! | `connect`, `migrate` | how a file is opened, and how its schema grows |
//! | `read_only` | how a file is read that cannot be written |
//! | `files` | whether the open files are still those at their paths |
//! | `commit`, `state`, `log` | the log: one commit, the state, the tail |
//! | `runs`, `owners`, `drafts` | runs with their queue and leases, who works on them, text that is not in the log yet |
//! | `process` | the advisory lock that proves that a process is alive |
//! | `sessions`, `artifacts` | the rest of the ports, a file each |
//! | `fault`, `health` | SQLite's codes in the words of [`Error`]; what is reported to whoever operates the process |
//!
//! **Invariants.** Every change goes through the writer, so SQLite never refuses one because of another of ours; another
//! process is waited for. What was answered survives `kill -9` and, as far as the disk keeps its word, a power cut.

mod artifacts;
mod commit;
mod connect;
mod drafts;
mod fault;
mod files;
mod health;
mod log;
mod migrate;
mod owners;
mod ports;
mod process;
mod read_only;
mod readers;
mod runs;
mod sessions;
mod state;
mod writer;

#[cfg(test)]
mod plans;

use crate::{Error, Result, Seq, SessionKey, TailBudget};
use connect::ReadMode;
use fault::{Failure, Outcome};
use files::OpenFiles;
use health::Health;
use process::{LockDirectory, ProcessLock};
use readers::Readers;
use rusqlite::{Connection, types::Type};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;
use writer::Writer;

#[derive(Clone, Debug)]
pub struct Options {
    /// How many writes may wait or be under way.
    pub queue_jobs: usize,
    /// And about how many bytes of them.
    pub queue_bytes: usize,
    /// How long a write waits for room in the queue before it is [`Error::QueueFull`]: longer than for another process, which
    /// may be the reason why there is none.
    pub queue_wait: Duration,
    /// How long another process is waited for before a call is [`Error::Locked`].
    pub busy_timeout: Duration,
    /// How many reads may be under way.
    pub readers: usize,
    /// The file may not grow beyond this: what would not fit is [`Error::DiskFull`].
    pub max_bytes: Option<u64>,
    /// Told when the file fails, with the cause and the path, and when it works again.
    pub report: Option<Reporter>,
}

/// Takes a line for whoever operates the process.
pub type Reporter = fn(&str);

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_jobs: 1024,
            queue_bytes: 64 * 1024 * 1024,
            queue_wait: Duration::from_secs(45),
            busy_timeout: Duration::from_secs(40),
            readers: 4,
            max_bytes: None,
            report: None,
        }
    }
}

impl Options {
    /// Within what a semaphore can count.
    fn queue_bytes(&self) -> usize {
        self.queue_bytes.clamp(1, Semaphore::MAX_PERMITS)
    }
}

/// Clones share the file. When the last one is dropped, everything queued is written first; that drop waits for it.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    file: Arc<File>,
}

/// The order matters: the writer ends before the readers are let go.
#[derive(Debug)]
struct File {
    /// `None` if it was opened for reading.
    writer: Option<Writer>,
    readers: Readers,
    path: PathBuf,
    locks: LockDirectory,
    /// Acquired by the first claim of an owner: who only reads needs no proof of life.
    process: Mutex<Option<Arc<ProcessLock>>>,
    misses_log: bool,
}

impl File {
    fn writer(&self) -> Result<&Writer> {
        let source = || "it was opened for reading".into();
        self.writer.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path.clone(), source: source() })
    }

    fn process(&self) -> Result<Arc<ProcessLock>> {
        self.writer()?;
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
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
        W: Fn(&Connection) -> Outcome<T> + Send + 'static,
    {
        self.writer()?.write(size, work).await
    }

    /// The same for work on one session: if the session is damaged, it is named.
    async fn write_in<T, W>(&self, key: SessionKey, size: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Connection, &SessionKey) -> Outcome<T> + Send + 'static,
    {
        let is_damaged = |conn: &Connection, key: &SessionKey| {
            // The page that cannot be written may be shared by all sessions.
            let own = log::load(conn, key, TailBudget { tokens: u64::MAX, rows: LOOKED_AT });
            matches!(own, Err(Failure::Sql(error)) if fault::is_damage(&error))
        };
        self.write(size, move |conn| name_damage(conn, &key, work(conn, &key), is_damaged)).await
    }

    /// Reads from one session; if it is damaged, it is named.
    async fn read_in<T, W>(&self, key: SessionKey, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, &SessionKey) -> Outcome<T> + Send + 'static,
    {
        self.readers.read(move |conn| name_damage(conn, &key, work(conn, &key), |_, _| true)).await
    }
}

/// How many rows of a session are read to find out whether it is the damaged one.
const LOOKED_AT: usize = 64;

/// Names the session whose rows or pages are damaged. If it cannot even be found, or has no damage of its own, the file has.
fn name_damage<T>(
    conn: &Connection,
    key: &SessionKey,
    outcome: Outcome<T>,
    is_damaged: impl FnOnce(&Connection, &SessionKey) -> bool,
) -> Outcome<T> {
    match outcome {
        Err(Failure::Sql(error))
            if fault::is_unreadable(&error)
                || (fault::is_damage(&error) && sessions::is_known(conn, key) && is_damaged(conn, key)) =>
        {
            Err(Failure::damaged(key, error))
        }
        other => other,
    }
}

impl SqliteStore {
    /// Opens the file, makes it if there is none, and brings its schema up to date. Blocks while it does.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        connect::make_private(&path)?;
        let failed = |source: std::io::Error| Error::Open { path: path.clone(), source: source.into() };
        let conn = connect::writer(&path, &options)?;
        migrate::migrate(&conn, &path)?;
        let files = OpenFiles::identify(&path, &conn).map_err(|fault| fault.to_error())?;
        // From here on the writer waits for other processes itself.
        conn.busy_timeout(Duration::ZERO).map_err(|error| Failure::from(error).at(&path))?;
        let health = Arc::new(Health::new(path.clone(), options.report));
        let place = (path.clone(), Some(files.clone()));
        let writer = Writer::start(conn, place, options.clone(), Arc::clone(&health)).map_err(failed)?;
        let readers = Readers::new((path.clone(), files), (ReadMode::Shared, None), options, health);
        Ok(Self::new(Some(writer), readers, path, false))
    }

    /// Opens an existing file, for writing too if that is possible, and else for reading alone: on a full disk, on a read-only
    /// file system, or without the permission to write. Such a store refuses every write as [`Error::ReadOnly`].
    pub fn open_for_reading(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        let refused = match Self::open(path, options.clone()) {
            Err(error) if read_only::may_help(&error) => error,
            other => return other,
        };
        let Some(access) = read_only::find(path, &options)? else { return Err(refused) };
        let files = OpenFiles::database_only(path, &access.conn).map_err(|fault| fault.to_error())?;
        let health = Arc::new(Health::new(path.to_path_buf(), options.report));
        let mode = (access.mode, Some(access.conn));
        let readers = Readers::new((path.to_path_buf(), files), mode, options, health);
        Ok(Self::new(None, readers, path.to_path_buf(), access.misses_log))
    }

    fn new(writer: Option<Writer>, readers: Readers, path: PathBuf, misses_log: bool) -> Self {
        let locks = LockDirectory::beside(&path);
        let process = Mutex::default();
        Self { file: Arc::new(File { writer, readers, path, locks, process, misses_log }) }
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Whether what was written last may be missing: the store was opened for reading, and the write-ahead log could not be read.
    pub fn misses_log(&self) -> bool {
        self.file.misses_log
    }
}

/// SQLite counts to 2^63; no session gets there.
fn bounded(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn unreadable(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}
