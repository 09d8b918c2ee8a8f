//! Reads a database that cannot be written: on a full disk, on a read-only file system, or without write permission.
//!
//! SQLite reads a write-ahead log through its index, a file beside the database. If that file cannot be created, these modes
//! are tried in order:
//!
//! 1. read-only, with an existing log and index of another process, alive or killed;
//! 2. if the log is not empty: exclusive, with the index in memory, which works on a full disk if no process has the file open;
//! 3. the database without the log. If the log is not empty, the newest commits are missing, and `misses_log` is set.

use super::{
    Options,
    connect::{self, ReadMode},
    files, migrate,
};
use crate::{Error, Result};
use rusqlite::Connection;
use std::{fs, path::Path, time::Duration};

/// A mode that works, with its first connection.
#[derive(Debug)]
pub(super) struct ReadAccess {
    pub(super) mode: ReadMode,
    pub(super) conn: Connection,
    /// The content of the write-ahead log is not visible.
    pub(super) misses_log: bool,
}

/// Whether a database that fails to open with this error may be readable read-only.
pub(super) fn may_help(error: &Error) -> bool {
    matches!(error, Error::ReadOnly { .. } | Error::DiskFull { .. } | Error::Io { .. } | Error::Open { .. })
}

/// The first mode that works; `None` if none does.
pub(super) fn find(path: &Path, options: &Options) -> Result<Option<ReadAccess>> {
    let has_log = || fs::metadata(files::with(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if let Some(access) = attempt(path, ReadMode::ReadOnly, options)? {
        return Ok(Some(access));
    }
    // Another process keeps the file open for long, so waiting does not help.
    let no_wait = Options { busy_timeout: Duration::ZERO, ..options.clone() };
    if has_log()
        && let Some(access) = attempt(path, ReadMode::Exclusive, &no_wait)?
    {
        return Ok(Some(access));
    }
    let access = attempt(path, ReadMode::Immutable, options)?;
    Ok(access.map(|access| ReadAccess { misses_log: has_log(), ..access }))
}

/// `None` if the database cannot be read in this mode. An error means that no other mode works either.
fn attempt(path: &Path, mode: ReadMode, options: &Options) -> Result<Option<ReadAccess>> {
    let Ok(conn) = connect::reader(path, mode, options) else { return Ok(None) };
    match migrate::check(&conn, path) {
        Ok(()) => Ok(Some(ReadAccess { mode, conn, misses_log: false })),
        Err(error) if may_help(&error) || matches!(error, Error::Locked { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::SqliteStore;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// A database after SIGKILL of its process: the last change is only in the write-ahead log.
    fn left_by_a_killed_process() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("lango.db"), dir.path().join("copy.db"));
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        let conn = Connection::open(&path).unwrap();
        conn.execute("UPDATE numbers SET last = 42", []).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            fs::copy(files::with(&path, suffix), files::with(&copy, suffix)).unwrap();
        }
        (dir, copy)
    }

    fn last(access: &ReadAccess) -> i64 {
        access.conn.query_row("SELECT last FROM numbers", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_mode_but_immutable_reads_the_log() {
        for (mode, expected) in
            [(ReadMode::ReadOnly, 42), (ReadMode::Exclusive, 42), (ReadMode::Immutable, 0)]
        {
            let (_dir, path) = left_by_a_killed_process();
            let access = attempt(&path, mode, &Options::default()).unwrap().unwrap();
            assert_eq!(last(&access), expected, "{mode:?}");
        }
    }

    #[test]
    fn exclusive_mode_reads_the_log_without_an_index_file() {
        let (_dir, path) = left_by_a_killed_process();
        let shm = files::with(&path, "-shm");
        fs::remove_file(&shm).unwrap();
        let access = attempt(&path, ReadMode::Exclusive, &Options::default()).unwrap().unwrap();
        assert_eq!(last(&access), 42);
        assert!(!shm.exists());
    }

    #[test]
    fn a_file_open_in_another_process_is_read_in_read_only_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lango.db");
        let _store = SqliteStore::open(&path, Options::default()).unwrap();
        let no_wait = Options { busy_timeout: Duration::ZERO, ..Options::default() };
        assert!(attempt(&path, ReadMode::Exclusive, &no_wait).unwrap().is_none());
        let access = find(&path, &no_wait).unwrap().unwrap();
        assert_eq!((access.mode, access.misses_log), (ReadMode::ReadOnly, false));
    }

    #[test]
    fn an_older_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lango.db");
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        let conn = Connection::open(&path).unwrap();
        conn.execute("DELETE FROM schema_version WHERE version > 2", []).unwrap();
        drop(conn);
        let refused = find(&path, &Options::default()).unwrap_err();
        assert!(matches!(refused, Error::OlderSchema { found: 2, known, .. } if known > 2), "{refused:?}");
    }
}
