//! How a connection is set up. Settings that belong to the file are made once by the writer; the others by everybody.

use super::{Options, fault::Outcome};
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// A turn changes a dozen pages and little on each of them, and all of them go through the log: small pages cost the least.
/// Fixed when the file is made.
const PAGE_BYTES: u64 = 4_096;
const STATEMENTS: usize = 64;

/// The one connection that writes. Makes the file if there is none.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection> {
    make_private(path).map_err(|error| Error::Open { path: path.into(), source: error.into() })?;
    let open = || -> Outcome<Connection> {
        let conn = connect(path, options)?;
        if conn.is_readonly("main")? {
            let source = "the file or its directory does not admit writing".into();
            return Err(Error::ReadOnly { path: path.into(), source }.into());
        }
        conn.pragma_update(None, "page_size", PAGE_BYTES)?;
        use_wal(&conn, path, options.busy_timeout)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "cache_size", -65_536)?;
        conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        if let Some(bytes) = options.max_bytes {
            // A file of an earlier version has larger pages.
            let page: u64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            conn.pragma_update(None, "max_page_count", (bytes / page).max(1))?;
        }
        Ok(conn)
    };
    open().map_err(|failure| failure.at(path))
}

/// A connection that cannot write.
pub(super) fn reader(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let conn = connect(path, options)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    Ok(conn)
}

/// Conversations are for their owner's eyes: SQLite gives its side files the rights of the main one.
fn make_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    // A mapped file turns an I/O error into a signal that ends the process.
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on bound values: a cached statement is not prepared again for each of them, which took a
    // quarter of the time of a load.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

/// SQLite does not wait for another process that is switching the same new file to WAL, so this does.
fn use_wal(conn: &Connection, path: &Path, patience: Duration) -> Outcome<()> {
    let deadline = Instant::now() + patience;
    loop {
        let switched = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match switched {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let source =
                    format!("it needs a write-ahead log, and this place admits only \"{mode}\"").into();
                return Err(Error::Open { path: path.into(), source }.into());
            }
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(conn: &Connection, name: &str) -> String {
        conn.query_row(&format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"), [], |row| row.get(0))
            .unwrap()
    }

    /// `kill -9` does not find out whether a commit reached the disk, so nothing but this test does.
    #[test]
    fn a_commit_is_on_the_disk_before_it_is_acknowledged() {
        let place = tempfile::tempdir().unwrap();
        let conn = writer(&place.path().join("lango.db"), &Options::default()).unwrap();
        let full = "2";
        let settings = [("synchronous", full), ("journal_mode", "wal"), ("foreign_keys", "1")];
        for (name, expected) in settings {
            assert_eq!(setting(&conn, name), expected, "{name}");
        }
        assert_eq!(setting(&conn, "page_size"), PAGE_BYTES.to_string());
    }

    #[test]
    fn a_reader_cannot_write() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lango.db");
        writer(&path, &Options::default()).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        let conn = reader(&path, &Options::default()).unwrap();
        assert!(conn.execute("INSERT INTO t VALUES (1)", []).is_err());
    }
}
