//! Maps errors of SQLite and the file system to [`Error`], by code and never by message.

use super::files;
use crate::{Error, SessionKey, error::BoxError};
use rusqlite::{ErrorCode, ffi};
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why work on a connection failed.
#[derive(Debug)]
pub(super) enum JobError {
    /// The store refused the call, such as a conflict or a missing session. The database is healthy.
    Refused(Error),
    Sql(rusqlite::Error),
    /// Rows or pages of this session cannot be read.
    Damaged(Box<(SessionKey, rusqlite::Error)>),
    Panicked,
}

pub(super) type JobResult<T> = Result<T, JobError>;

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for JobError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<FileFault> for JobError {
    fn from(fault: FileFault) -> Self {
        Self::Refused(fault.to_error())
    }
}

impl JobError {
    pub(super) fn damaged(key: &SessionKey, error: rusqlite::Error) -> Self {
        Self::Damaged(Box::new((key.clone(), error)))
    }

    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sql(error) => FileFault::of(path, error).to_error(),
            Self::Damaged(damage) => {
                let (key, error) = *damage;
                Error::DamagedSession { key, source: Box::new(SqliteCause(error)) }
            }
            Self::Panicked => Error::Backend("a write panicked; nothing of it was stored".into()),
        }
    }
}

/// An injected fault as an error of SQLite.
pub(super) fn injected(fault: failpoint::InjectedFault) -> rusqlite::Error {
    let code = if fault.is_disk_full() { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(fault.to_string()))
}

/// A failure of the file. It can be cloned, because all jobs of a batch that could not begin fail with it.
#[derive(Clone, Debug)]
pub(super) enum FileFault {
    Deleted(PathBuf),
    Replaced(PathBuf),
    /// A file beside the database was deleted or replaced.
    Detached(PathBuf),
    Failed {
        kind: FaultKind,
        path: PathBuf,
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Locked,
    ReadOnly,
    DiskFull,
    Damaged,
    Index,
    Io,
    Open,
    Row,
    Other,
}

impl FileFault {
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> Self {
        if extended_code(&error) == Some(ffi::SQLITE_READONLY_DBMOVED) {
            let path = path.to_path_buf();
            return if path.exists() { Self::Replaced(path) } else { Self::Deleted(path) };
        }
        let kind = kind(path, &error);
        Self::Failed { kind, path: path.to_path_buf(), source: Arc::new(SqliteCause(error)) }
    }

    /// The metadata of the file cannot be read.
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Failed { kind: FaultKind::Io, path: path.to_path_buf(), source: Arc::new(error) }
    }

    pub(super) fn to_error(&self) -> Error {
        let (kind, path, source) = match self {
            Self::Deleted(path) => return Error::Deleted { path: path.clone() },
            Self::Replaced(path) => return Error::Replaced { path: path.clone() },
            Self::Detached(path) => return Error::Detached { path: path.clone() },
            Self::Failed { kind, path, source } => (*kind, path.clone(), Arc::clone(source)),
        };
        let source: BoxError = Box::new(source);
        match kind {
            FaultKind::Locked => Error::Locked { path, source },
            FaultKind::ReadOnly => Error::ReadOnly { path, source },
            FaultKind::DiskFull => Error::DiskFull { path, source },
            FaultKind::Damaged => Error::Damaged { path, source },
            FaultKind::Index => Error::DamagedIndex { path, source },
            FaultKind::Io => Error::Io { path, source },
            FaultKind::Open => Error::Open { path, source },
            FaultKind::Row => Error::Row { what: source.to_string(), source },
            FaultKind::Other => Error::Backend(source),
        }
    }

    /// Whether every further transaction would fail with it as well.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Deleted(_) | Self::Replaced(_) | Self::Detached(_) => true,
            Self::Failed { kind, .. } => {
                matches!(kind, FaultKind::Io | FaultKind::ReadOnly | FaultKind::Locked | FaultKind::Open)
            }
        }
    }

    /// Whether the failed COMMIT may have written frames to the write-ahead log.
    pub(super) fn may_leave_frames(&self) -> bool {
        matches!(self, Self::Failed { kind: FaultKind::Io | FaultKind::DiskFull, .. })
    }
}

fn kind(path: &Path, error: &rusqlite::Error) -> FaultKind {
    if is_unreadable(error) {
        return FaultKind::Row;
    }
    if extended_code(error) == Some(ffi::SQLITE_CORRUPT_VTAB) {
        return FaultKind::Index;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            FaultKind::Locked
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => FaultKind::ReadOnly,
        Some(ErrorCode::DiskFull) => FaultKind::DiskFull,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => FaultKind::Damaged,
        Some(ErrorCode::CannotOpen) if path.is_file() => probe(path).unwrap_or(FaultKind::Open),
        Some(ErrorCode::CannotOpen) => FaultKind::Open,
        Some(ErrorCode::SystemIoFailure) => match extended_code(error) {
            // The index of the write-ahead log is created when the file is opened, so a full disk fails here first.
            Some(ffi::SQLITE_IOERR_SHMSIZE) => FaultKind::DiskFull,
            Some(ffi::SQLITE_IOERR_READ) => FaultKind::Io,
            Some(_) | None => probe(path).unwrap_or(FaultKind::Io),
        },
        Some(_) | None => FaultKind::Other,
    }
}

/// Writes a file beside the database to learn the error of the file system. SQLite reports an exceeded quota and a read-only
/// remount as a plain I/O error.
fn probe(path: &Path) -> Option<FaultKind> {
    let probe = files::with(path, &format!("-probe-{}", std::process::id()));
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&probe);
    let written = opened.and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_data()
    });
    let _ = fs::remove_file(&probe);
    of_system(written.err()?.kind())
}

/// The fault kind of an error of the operating system, if it has one.
pub(super) fn of_system(kind: ErrorKind) -> Option<FaultKind> {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(FaultKind::DiskFull),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Some(FaultKind::ReadOnly),
        _ => None,
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Whether another connection holds the lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::FileLockingProtocolFailed))
}

/// Whether pages or rows are corrupt, except those of the search index.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let is_index = extended_code(error) == Some(ffi::SQLITE_CORRUPT_VTAB);
    is_unreadable(error) || (error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) && !is_index)
}

/// Whether a row was read but its values are invalid.
pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// An error of SQLite with its extended code, which is more specific than the message.
#[derive(Debug)]
struct SqliteCause(rusqlite::Error);

impl fmt::Display for SqliteCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match extended_code(error) {
            Some(code) if code > 0xff => write!(f, "{error} (SQLite code {code})"),
            Some(_) | None => error.fmt(f),
        }
    }
}

impl std::error::Error for SqliteCause {}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(error: &Error) -> &'static str {
        match error {
            Error::Locked { .. } => "locked",
            Error::ReadOnly { .. } => "read-only",
            Error::DiskFull { .. } => "full",
            Error::Damaged { .. } => "damaged",
            Error::DamagedIndex { .. } => "index",
            Error::Deleted { .. } => "deleted",
            Error::Io { .. } => "i/o",
            Error::Open { .. } => "open",
            Error::Backend(_) => "backend",
            other => panic!("no SQLite code maps to {other:?}"),
        }
    }

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn each_sqlite_code_maps_to_an_error() {
        let table = [
            (ffi::SQLITE_BUSY, "locked"),
            (ffi::SQLITE_CORRUPT_VTAB, "index"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "locked"),
            (ffi::SQLITE_LOCKED, "locked"),
            (ffi::SQLITE_PROTOCOL, "locked"),
            (ffi::SQLITE_READONLY, "read-only"),
            (ffi::SQLITE_READONLY_DIRECTORY, "read-only"),
            (ffi::SQLITE_READONLY_DBMOVED, "deleted"),
            (ffi::SQLITE_PERM, "read-only"),
            (ffi::SQLITE_FULL, "full"),
            (ffi::SQLITE_IOERR_SHMSIZE, "full"),
            (ffi::SQLITE_CORRUPT, "damaged"),
            (ffi::SQLITE_NOTADB, "damaged"),
            (ffi::SQLITE_CANTOPEN, "open"),
            (ffi::SQLITE_IOERR, "i/o"),
            (ffi::SQLITE_IOERR_READ, "i/o"),
            (ffi::SQLITE_IOERR_WRITE, "i/o"),
            (ffi::SQLITE_IOERR_FSYNC, "i/o"),
            (ffi::SQLITE_CONSTRAINT, "backend"),
        ];
        let dir = tempfile::tempdir().unwrap();
        for (code, expected) in table {
            let error = JobError::from(sqlite(code)).at(&dir.path().join("lango.db"));
            assert_eq!(name(&error), expected, "code {code}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the probe file is removed");
    }

    #[test]
    fn system_errors_map_to_disk_full_and_read_only() {
        let table = [
            (28, Some(FaultKind::DiskFull)),  // ENOSPC
            (122, Some(FaultKind::DiskFull)), // EDQUOT
            (30, Some(FaultKind::ReadOnly)),  // EROFS
            (13, Some(FaultKind::ReadOnly)),  // EACCES
            (5, None),                        // EIO
        ];
        for (number, expected) in table {
            let error = io::Error::from_raw_os_error(number);
            if cfg!(target_os = "linux") {
                assert_eq!(of_system(error.kind()), expected, "{error}");
            }
        }
    }

    #[test]
    fn with_causes_includes_the_sqlite_code() {
        let dir = tempfile::tempdir().unwrap();
        let error = JobError::from(sqlite(ffi::SQLITE_IOERR_FSYNC)).at(&dir.path().join("lango.db"));
        let text = error.with_causes();
        assert!(text.contains("lango.db cannot be read or written: "), "{text}");
        assert!(text.ends_with("(SQLite code 1034)"), "{text}");
    }
}
