//! The pool of read connections. Each connection serves one read at a time, and no read transaction outlives its call.

use super::{
    Options,
    connect::{self, ReadMode},
    fault::JobResult,
    files::OpenFiles,
};
use crate::{
    Error, Result,
    health::{AccessKind, StoreHealth},
};
use lock::LockExt;
use rusqlite::Connection;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tokio::{sync::Semaphore, task};

#[derive(Debug)]
pub(super) struct Readers {
    permits: Arc<Semaphore>,
    pool: Arc<ReaderPool>,
}

/// Idle connections. New ones are opened on demand; the permits bound their number.
#[derive(Debug)]
struct ReaderPool {
    path: PathBuf,
    mode: ReadMode,
    files: OpenFiles,
    options: Options,
    health: Arc<StoreHealth>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(
        (path, files): (PathBuf, OpenFiles),
        (mode, first): (ReadMode, Option<Connection>),
        options: Options,
        health: Arc<StoreHealth>,
    ) -> Self {
        let limit = if mode == ReadMode::Exclusive { 1 } else { options.readers.max(1) };
        let idle = Mutex::new(first.into_iter().collect());
        let pool = ReaderPool { path, mode, files, options, health, idle };
        Self { permits: Arc::new(Semaphore::new(limit)), pool: Arc::new(pool) }
    }

    /// Runs `work` in one read transaction.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> JobResult<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        let pool = Arc::clone(&self.pool);
        let read = task::spawn_blocking(move || {
            // Held until the connection is returned, even if the caller dropped the future.
            let _permit = permit;
            let result = pool.with_connection(work).map_err(|failure| failure.at(&pool.path));
            pool.health.record(AccessKind::Read, &result);
            result
        });
        read.await.unwrap_or_else(|lost| Err(Error::Backend(lost.into())))
    }
}

impl ReaderPool {
    /// Runs `work` with an idle connection or a new one. Checks the files before using a connection and after opening one, so
    /// that all connections read the same file.
    fn with_connection<T>(&self, work: impl FnOnce(&Connection) -> JobResult<T>) -> JobResult<T> {
        self.files.check()?;
        let idle = self.idle.locked().pop();
        let conn = if let Some(conn) = idle {
            conn
        } else {
            let conn = connect::reader(&self.path, self.mode, &self.options)?;
            self.files.check_database()?;
            conn
        };
        let answer = snapshot(&conn, work);
        // A connection with an open transaction would block checkpoints, so it is closed instead.
        if conn.is_autocommit() {
            self.idle.locked().push(conn);
        }
        answer
    }
}

fn snapshot<T>(conn: &Connection, work: impl FnOnce(&Connection) -> JobResult<T>) -> JobResult<T> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let answer = work(conn);
    // COMMIT fails after a damaged page; a read transaction can be rolled back instead.
    let ended = conn.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
    if ended.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    answer
}
