//! Reading: a few connections beside the writer, each used by one read at a time. No read transaction outlives its call.

use super::{
    Options, connect,
    fault::{Failure, Outcome},
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
    shelf: Arc<Shelf>,
}

/// Connections that nobody uses now. New ones are made as they are needed; the permits bound their number.
#[derive(Debug)]
struct Shelf {
    path: PathBuf,
    options: Options,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, options: Options) -> Self {
        let permits = Arc::new(Semaphore::new(options.readers.max(1)));
        Self { permits, shelf: Arc::new(Shelf { path, options, idle: Mutex::default() }) }
    }

    /// Runs `work` on one consistent state of the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        let shelf = Arc::clone(&self.shelf);
        let read = task::spawn_blocking(move || {
            // Held until the connection is back, also when nobody waits for the answer any more.
            let _permit = permit;
            shelf.lend(work).map_err(|failure| failure.at(&shelf.path))
        });
        read.await.unwrap_or_else(|lost| Err(Error::Backend(lost.into())))
    }
}

impl Shelf {
    fn lend<T>(&self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => connect::reader(&self.path, &self.options)?,
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
    let ended = conn.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
    answer.and_then(|answer| ended.map(|_| answer).map_err(Failure::from))
}
