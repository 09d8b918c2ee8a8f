//! Compaction: rewrites the file without free space. Files of earlier versions get incremental vacuum by it.

use super::{
    Options, SqliteStore, connect,
    fault::{JobError, JobResult},
};
use crate::{Error, Result};
use rusqlite::Connection;
use std::path::Path;
use tokio::task;

impl SqliteStore {
    /// Fails with [`Error::InUse`] if another process that lives owns, or is about to own, runs of this database.
    pub fn check_unshared(&self) -> Result<()> {
        let own = self.db.process()?.name().to_owned();
        match self.db.locks.living().into_iter().find(|process| *process != own) {
            Some(_) => Err(Error::InUse { path: self.db.path.clone() }),
            None => Ok(()),
        }
    }

    /// The bytes in use: what a compaction writes to the write-ahead log, and to a temporary file.
    pub async fn compact_needs(&self) -> Result<u64> {
        self.db.readers.read(used_bytes).await
    }

    /// Rewrites the file without free space, so that later deletes return theirs. Returns the sizes of the file before and after.
    /// Writes of other processes wait meanwhile; a kill or a full disk leaves the file as it was.
    pub async fn compact(&self) -> Result<(u64, u64)> {
        let (path, options) = (self.db.path.clone(), self.db.options.clone());
        let compacted = task::spawn_blocking(move || {
            let size = || std::fs::metadata(&path).map_or(0, |file| file.len());
            let before = size();
            rewrite(&path, &options).map_err(|failure| failure.at(&path))?;
            Ok((before, size()))
        });
        compacted.await.unwrap_or_else(|lost| Err(Error::Backend(lost.into())))
    }
}

fn used_bytes(conn: &Connection) -> JobResult<u64> {
    let pragma = |name: &str| conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")?.saturating_sub(pragma("freelist_count")?)) * pragma("page_size")?)
}

fn rewrite(path: &Path, options: &Options) -> JobResult<()> {
    let conn = connect::writer(path, options).map_err(JobError::from)?;
    // The copy may be larger than the memory.
    conn.pragma_update(None, "temp_store", "FILE")?;
    conn.execute_batch("VACUUM")?;
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    conn.query_row(truncate, [], |_| Ok(()))?;
    Ok(())
}
