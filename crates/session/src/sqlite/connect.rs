//! Opens and configures connections. The writer applies the settings that are stored in the file.

use super::{
    Options,
    fault::{JobResult, is_busy},
};
use crate::{Error, Result};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    fs::OpenOptions,
    io,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A turn changes a few bytes on about a dozen pages, and each changed page is written to the write-ahead log, so small pages
/// are cheapest. Fixed when the file is created.
const PAGE_BYTES: u64 = 4_096;
/// Capacity of the cache of prepared statements.
const STATEMENTS: usize = 64;

/// How a read connection uses the files beside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Shares the write-ahead log and its index with other processes, and creates them if they are missing.
    Shared,
    /// Writes no file, and reads the write-ahead log if it exists.
    ReadOnly,
    /// Keeps the index of the write-ahead log in memory, so that it needs no file. One connection at a time.
    Exclusive,
    /// Reads only the database, without locks: correct if the write-ahead log is empty and no process writes.
    Immutable,
}

/// Opens the write connection.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection> {
    let open = || -> JobResult<Connection> {
        let conn = connect(path, READ_WRITE, options)?;
        if conn.is_readonly("main")? {
            let source = "the file or its directory is not writable".into();
            return Err(Error::ReadOnly { path: path.into(), source }.into());
        }
        conn.pragma_update(None, "page_size", PAGE_BYTES)?;
        // Effective only before the first table is created. In an existing file it would write, and so wait for its lock.
        if conn.query_row("PRAGMA page_count", [], |row| row.get::<_, u64>(0))? == 0 {
            conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        use_wal(&conn, path, options.busy_timeout)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        // Deleting the row of a session must not delete all of its rows in one transaction.
        conn.pragma_update(None, "foreign_keys", false)?;
        conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
        conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        if let Some(bytes) = options.max_bytes {
            // Files of earlier versions have larger pages.
            let page: u64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            conn.pragma_update(None, "max_page_count", (bytes / page).max(1))?;
        }
        Ok(conn)
    };
    open().map_err(|failure| failure.at(path))
}

/// Opens a read connection.
pub(super) fn reader(path: &Path, mode: ReadMode, options: &Options) -> rusqlite::Result<Connection> {
    let conn = match mode {
        ReadMode::Shared | ReadMode::Exclusive => connect(path, READ_WRITE, options)?,
        ReadMode::ReadOnly => connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, options)?,
        ReadMode::Immutable => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            connect(&immutable_uri(path), flags, options)?
        }
    };
    if mode == ReadMode::Exclusive {
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", READER_CACHE)?;
    Ok(conn)
}

/// The page caches, in negative KiB as SQLite counts. Large rows fill them, and they stay filled; what is evicted is still in the page
/// cache of the system.
const WRITER_CACHE: i32 = -16 * 1024;
const READER_CACHE: i32 = -4 * 1024;

const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE;

/// Escapes every byte that has a meaning in a URI.
fn immutable_uri(path: &Path) -> PathBuf {
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    });
    PathBuf::from(format!("file:{}?immutable=1", escaped.collect::<String>()))
}

/// Creates the file with mode 0600 if it is missing. SQLite creates the files beside the database with the same mode.
pub(super) fn make_private(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            let (path, kind, source) = (path.to_path_buf(), error.kind(), error.into());
            Err(match kind {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path, source },
                io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { path, source },
                _ => Error::Open { path, source },
            })
        }
    }
}

fn connect(path: &Path, flags: OpenFlags, options: &Options) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(options.busy_timeout)?;
    // With a memory-mapped file an I/O error is a SIGBUS.
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Query plans do not depend on bound values, so a cached statement is not prepared again. That took a quarter of a load.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

/// Switches the file to WAL. SQLite does not wait for another process that does the same, so this retries.
fn use_wal(conn: &Connection, path: &Path, busy_timeout: Duration) -> JobResult<()> {
    let deadline = Instant::now() + busy_timeout;
    loop {
        let switched = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match switched {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let source =
                    format!("a write-ahead log is needed, but the file system supports only \"{mode}\"")
                        .into();
                return Err(Error::Open { path: path.into(), source }.into());
            }
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(conn: &Connection, name: &str) -> String {
        conn.query_row(&format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"), [], |row| row.get(0))
            .unwrap()
    }

    fn created(path: &Path) -> Connection {
        make_private(path).unwrap();
        let conn = writer(path, &Options::default()).unwrap();
        conn.execute_batch("CREATE TABLE t (a)").unwrap();
        conn
    }

    /// A test that kills the process cannot detect a missing fsync, so this one checks the settings.
    #[test]
    fn the_writer_uses_synchronous_full_and_wal() {
        let dir = tempfile::tempdir().unwrap();
        let conn = created(&dir.path().join("lango.db"));
        let full = "2";
        let settings =
            [("synchronous", full), ("journal_mode", "wal"), ("foreign_keys", "0"), ("auto_vacuum", "2")];
        for (name, expected) in settings {
            assert_eq!(setting(&conn, name), expected, "{name}");
        }
        assert_eq!(setting(&conn, "page_size"), PAGE_BYTES.to_string());
    }

    #[test]
    fn a_read_connection_refuses_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lango.db");
        drop(created(&path));
        for mode in [ReadMode::Shared, ReadMode::ReadOnly, ReadMode::Exclusive, ReadMode::Immutable] {
            let conn = reader(&path, mode, &Options::default()).unwrap();
            assert_eq!(conn.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0)), Ok(0), "{mode:?}");
            assert!(conn.execute("INSERT INTO t VALUES (1)", []).is_err(), "{mode:?}");
        }
    }

    #[test]
    fn special_characters_of_a_path_are_escaped_in_the_uri() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(std::ffi::OsStr::from_bytes(b"a b?c#d%20\xe9&e=f"));
        drop(created(&path));
        let conn = reader(&path, ReadMode::Immutable, &Options::default()).unwrap();
        assert_eq!(conn.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0)), Ok(0));
    }
}
