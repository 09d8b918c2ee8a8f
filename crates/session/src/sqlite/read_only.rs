//! Reading a database that cannot be written: on a full disk, on a read-only file system, or without the permission.
//!
//! A database with a write-ahead log is read through an index of that log, a file beside the database. Where it cannot be made,
//! the ways to read are tried in the order of what they show:
//!
//! 1. read-only, with the log and its index as another process made them, or left them when it was killed;
//! 2. if the log is not empty: alone, with the index in memory, on a full disk while nobody else has the file open;
//! 3. the database without the log. If the log is empty, that is everything; else what was written last may be missing, and
//!    the caller is told.

use super::{
    Options,
    connect::{self, ReadMode},
    files, migrate,
};
use crate::{Error, Result};
use rusqlite::Connection;
use std::{fs, path::Path, time::Duration};

/// A way to read a database, with its first connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) mode: ReadMode,
    pub(super) conn: Connection,
    /// What is in the write-ahead log is not shown.
    pub(super) misses_log: bool,
}

/// Whether a database that cannot be opened for this reason may be read all the same.
pub(super) fn may_help(error: &Error) -> bool {
    matches!(error, Error::ReadOnly { .. } | Error::DiskFull { .. } | Error::Io { .. } | Error::Open { .. })
}

/// The first way that works; `None` if none does.
pub(super) fn find(path: &Path, options: &Options) -> Result<Option<Access>> {
    let has_log = || fs::metadata(files::with(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if let Some(access) = attempt(path, ReadMode::ReadOnly, options)? {
        return Ok(Some(access));
    }
    // Who has the file open keeps it open; there is nothing to wait for.
    let impatient = Options { busy_timeout: Duration::ZERO, ..options.clone() };
    if has_log()
        && let Some(access) = attempt(path, ReadMode::Exclusive, &impatient)?
    {
        return Ok(Some(access));
    }
    let access = attempt(path, ReadMode::Immutable, options)?;
    Ok(access.map(|access| Access { misses_log: has_log(), ..access }))
}

/// `None` if the database cannot be read in this way. An error is one that the other ways have, too.
fn attempt(path: &Path, mode: ReadMode, options: &Options) -> Result<Option<Access>> {
    let Ok(conn) = connect::reader(path, mode, options) else { return Ok(None) };
    match migrate::check(&conn, path) {
        Ok(()) => Ok(Some(Access { mode, conn, misses_log: false })),
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

    /// A database as a killed process leaves it: its last change is in the write-ahead log alone.
    fn left_by_a_killed_process() -> (TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let (path, copy) = (place.path().join("lango.db"), place.path().join("copy.db"));
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        let conn = Connection::open(&path).unwrap();
        conn.execute("UPDATE numbers SET last = 42", []).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            fs::copy(files::with(&path, suffix), files::with(&copy, suffix)).unwrap();
        }
        (place, copy)
    }

    fn last(access: &Access) -> i64 {
        access.conn.query_row("SELECT last FROM numbers", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_way_but_the_last_shows_what_is_in_the_log() {
        for (mode, expected) in
            [(ReadMode::ReadOnly, 42), (ReadMode::Exclusive, 42), (ReadMode::Immutable, 0)]
        {
            let (_place, path) = left_by_a_killed_process();
            let access = attempt(&path, mode, &Options::default()).unwrap().unwrap();
            assert_eq!(last(&access), expected, "{mode:?}");
        }
    }

    #[test]
    fn without_its_index_the_log_is_read_alone() {
        let (_place, path) = left_by_a_killed_process();
        let shm = files::with(&path, "-shm");
        fs::remove_file(&shm).unwrap();
        let access = attempt(&path, ReadMode::Exclusive, &Options::default()).unwrap().unwrap();
        assert_eq!(last(&access), 42);
        assert!(!shm.exists());
    }

    #[test]
    fn who_has_the_file_open_is_not_disturbed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lango.db");
        let _store = SqliteStore::open(&path, Options::default()).unwrap();
        let impatient = Options { busy_timeout: Duration::ZERO, ..Options::default() };
        assert!(attempt(&path, ReadMode::Exclusive, &impatient).unwrap().is_none());
        let access = find(&path, &impatient).unwrap().unwrap();
        assert_eq!((access.mode, access.misses_log), (ReadMode::ReadOnly, false));
    }

    #[test]
    fn an_older_schema_is_told() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lango.db");
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        let conn = Connection::open(&path).unwrap();
        conn.execute("DELETE FROM schema_version WHERE version > 2", []).unwrap();
        drop(conn);
        let refused = find(&path, &Options::default()).unwrap_err();
        assert!(matches!(refused, Error::OlderSchema { found: 2, known, .. } if known > 2), "{refused:?}");
    }
}
