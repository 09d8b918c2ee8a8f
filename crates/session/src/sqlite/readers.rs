//! Reading: a few connections beside the writer, each used by one read at a time. No read transaction outlives its call.

use super::{
    Options,
    connect::{self, ReadMode},
    fault::Outcome,
    files::OpenFiles,
    health::{Access, Health},
};
use crate::{Error, Result};
use rusqlite::Connection;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{sync::Semaphore, task};

#[derive(Debug)]
pub(super) struct Readers {
    permits: Arc<Semaphore>,
    pool: Arc<Pool>,
}

/// Connections that nobody uses now. New ones are made as they are needed; the permits bound their number.
#[derive(Debug)]
struct Pool {
    path: PathBuf,
    mode: ReadMode,
    files: OpenFiles,
    options: Options,
    health: Arc<Health>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(
        (path, files): (PathBuf, OpenFiles),
        (mode, first): (ReadMode, Option<Connection>),
        options: Options,
        health: Arc<Health>,
    ) -> Self {
        let most = if mode == ReadMode::Exclusive { 1 } else { options.readers.max(1) };
        let idle = Mutex::new(first.into_iter().collect());
        let pool = Pool { path, mode, files, options, health, idle };
        Self { permits: Arc::new(Semaphore::new(most)), pool: Arc::new(pool) }
    }

    /// Runs `work` on one consistent state of the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        let pool = Arc::clone(&self.pool);
        let read = task::spawn_blocking(move || {
            // Held until the connection is back, also when nobody waits for the answer any more.
            let _permit = permit;
            let result = pool.lend(work).map_err(|failure| failure.at(&pool.path));
            pool.health.record(Access::Read, &result);
            result
        });
        read.await.unwrap_or_else(|lost| Err(Error::Backend(lost.into())))
    }
}

impl Pool {
    /// The files are checked before a connection is used and after one is made: none reads another file than the others.
    fn lend<T>(&self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        self.files.check()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = if let Some(conn) = idle {
            conn
        } else {
            let conn = connect::reader(&self.path, self.mode, &self.options)?;
            self.files.check_database()?;
            conn
        };
        let answer = snapshot(&conn, work);
        // One that could not end its transaction would hold back every checkpoint: it is closed instead.
        if conn.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
        answer
    }
}

fn snapshot<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let answer = work(conn);
    // A transaction that met a damaged page cannot be committed; there is nothing to commit.
    let ended = conn.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
    if ended.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    answer
}
