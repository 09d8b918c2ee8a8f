//! The default store: one SQLite file, one connection that writes, a few that read.
//!
//! | read | for |
//! |---|---|
//! | `writer` | the queue, the group commit and what it promises |
//! | `readers` | the pool of connections that cannot write |
//! | `connect`, `migrate` | how a file is opened, and how its schema grows |
//! | `append`, `state`, `log` | the log: one step, the state, the tail |
//! | `sessions`, `leases`, `inbox`, `runs`, `artifacts` | the rest of the ports, a file each |
//! | `fault` | SQLite's codes in the words of [`Error`] |
//!
//! **Invariants.** Every change goes through the writer, so SQLite never refuses one because of another of ours; another
//! process is waited for. What was answered survives `kill -9` and, as far as the disk keeps its word, a power cut.

mod append;
mod artifacts;
mod connect;
mod fault;
mod inbox;
mod leases;
mod log;
mod migrate;
mod ports;
mod readers;
mod runs;
mod sessions;
mod state;
mod writer;

use crate::{Error, Result, Seq};
use readers::Readers;
use rusqlite::types::Type;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
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
    /// How long a write waits for room in the queue before it is [`Error::QueueFull`].
    pub queue_wait: Duration,
    /// How long another process is waited for before a call is [`Error::Locked`].
    pub busy_timeout: Duration,
    /// How many reads may be under way.
    pub readers: usize,
    /// The file may not grow beyond this: what would not fit is [`Error::DiskFull`].
    pub max_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_jobs: 1024,
            queue_bytes: 64 * 1024 * 1024,
            queue_wait: Duration::from_secs(5),
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            max_bytes: None,
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
    writer: Writer,
    readers: Readers,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens the file, makes it if there is none, and brings its schema up to date. Blocks while it does.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let conn = connect::writer(&path, &options)?;
        migrate::migrate(&conn, &path)?;
        let writer = Writer::start(conn, path.clone(), options.clone())
            .map_err(|error| Error::Open { path: path.clone(), source: error.into() })?;
        let readers = Readers::new(path.clone(), options);
        Ok(Self { file: Arc::new(File { writer, readers, path }) })
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

/// SQLite counts to 2^63; no session gets there.
fn bounded(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn unreadable(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}
