//! How a connection is set up. Settings that belong to the file are made once by the writer; the others by everybody.

use super::{
    Options,
    fault::{Outcome, is_busy},
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

/// A turn changes a dozen pages and little on each of them, and all of them go through the log: small pages cost the least.
/// Fixed when the file is made.
const PAGE_BYTES: u64 = 4_096;
const STATEMENTS: usize = 64;

/// How a connection that reads gets along with other processes, and with files that it cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Shares the files beside the database, and makes them if there are none.
    Shared,
    /// Writes nothing, and reads the files beside the database if there are any.
    ReadOnly,
    /// Keeps the index of the write-ahead log in its own memory, so that it needs no file. One connection at a time.
    Exclusive,
    /// Reads the database alone, without locks: right if nothing is in the write-ahead log, and nobody writes.
    Immutable,
}

/// The one connection that writes.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection> {
    let open = || -> Outcome<Connection> {
        let conn = connect(path, READ_WRITE, options)?;
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
    conn.pragma_update(None, "cache_size", -16_384)?;
    Ok(conn)
}

const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE;

/// Every byte that could mean something in a URI is escaped.
fn immutable_uri(path: &Path) -> PathBuf {
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    });
    PathBuf::from(format!("file:{}?immutable=1", escaped.collect::<String>()))
}

/// Makes the file if there is none. Conversations are for their owner's eyes: SQLite gives the files beside the database the
/// rights of the database.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(conn: &Connection, name: &str) -> String {
        conn.query_row(&format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"), [], |row| row.get(0))
            .unwrap()
    }

    fn made(path: &Path) -> Connection {
        make_private(path).unwrap();
        let conn = writer(path, &Options::default()).unwrap();
        conn.execute_batch("CREATE TABLE t (a)").unwrap();
        conn
    }

    /// `kill -9` does not find out whether a commit reached the disk, so nothing but this test does.
    #[test]
    fn a_commit_is_on_the_disk_before_it_is_acknowledged() {
        let place = tempfile::tempdir().unwrap();
        let conn = made(&place.path().join("lango.db"));
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
        drop(made(&path));
        for mode in [ReadMode::Shared, ReadMode::ReadOnly, ReadMode::Exclusive, ReadMode::Immutable] {
            let conn = reader(&path, mode, &Options::default()).unwrap();
            assert_eq!(conn.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0)), Ok(0), "{mode:?}");
            assert!(conn.execute("INSERT INTO t VALUES (1)", []).is_err(), "{mode:?}");
        }
    }
    #[test]
    fn any_path_can_be_a_uri() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(std::ffi::OsStr::from_bytes(b"a b?c#d%20\xe9&e=f"));
        drop(made(&path));
        let conn = reader(&path, ReadMode::Immutable, &Options::default()).unwrap();
        assert_eq!(conn.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0)), Ok(0));
    }
}
