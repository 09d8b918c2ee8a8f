//! What SQLite and the file system say, in the words of this crate. No message is ever matched: only codes.

use super::files;
use crate::{Error, SessionKey, error::Cause};
use rusqlite::{ErrorCode, ffi};
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why a piece of work on a connection did not answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The store's own no: a conflict, a missing session. The database is well.
    Refused(Error),
    Sql(rusqlite::Error),
    /// Rows or pages of this session cannot be read.
    Damaged(Box<(SessionKey, rusqlite::Error)>),
    Panicked,
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault.to_error())
    }
}

impl Failure {
    pub(super) fn damaged(key: &SessionKey, error: rusqlite::Error) -> Self {
        Self::Damaged(Box::new((key.clone(), error)))
    }

    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sql(error) => Fault::of(path, error).to_error(),
            Self::Damaged(damage) => {
                let (key, error) = *damage;
                Error::DamagedSession { key, source: Box::new(SqliteCause(error)) }
            }
            Self::Panicked => Error::Backend("a write panicked; nothing of it was stored".into()),
        }
    }
}

/// An injected fault, as SQLite would report it.
pub(super) fn injected(fault: failpoint::Fault) -> rusqlite::Error {
    let code = if fault.is_disk_full() { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(fault.to_string()))
}

/// A failure of the file. One may be the answer to many jobs: a batch that could not begin tells each of them.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Deleted(PathBuf),
    Replaced(PathBuf),
    /// A file beside the database was deleted or replaced.
    Detached(PathBuf),
    Failed {
        kind: Kind,
        path: PathBuf,
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Locked,
    ReadOnly,
    DiskFull,
    Damaged,
    Io,
    Open,
    Row,
    Other,
}

impl Fault {
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> Self {
        if extended_code(&error) == Some(ffi::SQLITE_READONLY_DBMOVED) {
            let path = path.to_path_buf();
            return if path.exists() { Self::Replaced(path) } else { Self::Deleted(path) };
        }
        let kind = kind(path, &error);
        Self::Failed { kind, path: path.to_path_buf(), source: Arc::new(SqliteCause(error)) }
    }

    /// A file whose metadata the system does not give.
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Failed { kind: Kind::Io, path: path.to_path_buf(), source: Arc::new(error) }
    }

    pub(super) fn to_error(&self) -> Error {
        let (kind, path, source) = match self {
            Self::Deleted(path) => return Error::Deleted { path: path.clone() },
            Self::Replaced(path) => return Error::Replaced { path: path.clone() },
            Self::Detached(path) => return Error::Detached { path: path.clone() },
            Self::Failed { kind, path, source } => (*kind, path.clone(), Arc::clone(source)),
        };
        let source: Cause = Box::new(source);
        match kind {
            Kind::Locked => Error::Locked { path, source },
            Kind::ReadOnly => Error::ReadOnly { path, source },
            Kind::DiskFull => Error::DiskFull { path, source },
            Kind::Damaged => Error::Damaged { path, source },
            Kind::Io => Error::Io { path, source },
            Kind::Open => Error::Open { path, source },
            Kind::Row => Error::Row { what: source.to_string(), source },
            Kind::Other => Error::Backend(source),
        }
    }

    /// Whether the next transaction would meet it, too, however small it is.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Deleted(_) | Self::Replaced(_) | Self::Detached(_) => true,
            Self::Failed { kind, .. } => {
                matches!(kind, Kind::Io | Kind::ReadOnly | Kind::Locked | Kind::Open)
            }
        }
    }

    /// Whether a COMMIT that failed with it may have written to the write-ahead log.
    pub(super) fn may_leave_frames(&self) -> bool {
        matches!(self, Self::Failed { kind: Kind::Io | Kind::DiskFull, .. })
    }
}

fn kind(path: &Path, error: &rusqlite::Error) -> Kind {
    if is_unreadable(error) {
        return Kind::Row;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Kind::Locked
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Kind::ReadOnly,
        Some(ErrorCode::DiskFull) => Kind::DiskFull,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Kind::Damaged,
        Some(ErrorCode::CannotOpen) if path.is_file() => probe(path).unwrap_or(Kind::Open),
        Some(ErrorCode::CannotOpen) => Kind::Open,
        Some(ErrorCode::SystemIoFailure) => match extended_code(error) {
            // The index of the write-ahead log is made when the file is opened: on a full disk that fails first.
            Some(ffi::SQLITE_IOERR_SHMSIZE) => Kind::DiskFull,
            Some(ffi::SQLITE_IOERR_READ) => Kind::Io,
            Some(_) | None => probe(path).unwrap_or(Kind::Io),
        },
        Some(_) | None => Kind::Other,
    }
}

/// What the file system says to a write beside the database. SQLite reports an exceeded quota, and a file system that
/// became read-only, as an I/O error like any other.
fn probe(path: &Path) -> Option<Kind> {
    let place = files::with(path, &format!("-probe-{}", std::process::id()));
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&place);
    let written = opened.and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_data()
    });
    let _ = fs::remove_file(&place);
    of_system(written.err()?.kind())
}

/// The kinds of faults that the system has a name for.
pub(super) fn of_system(kind: ErrorKind) -> Option<Kind> {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Kind::DiskFull),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Some(Kind::ReadOnly),
        _ => None,
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Whether another connection is in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::FileLockingProtocolFailed))
}

/// Whether pages or rows are not what was written.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    is_unreadable(error) || error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// The row came back, but it is not what this version wrote.
pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// An error of SQLite that names its code where the words say little.
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
            Error::Deleted { .. } => "deleted",
            Error::Io { .. } => "i/o",
            Error::Open { .. } => "open",
            Error::Backend(_) => "backend",
            other => panic!("SQLite cannot say {other:?}"),
        }
    }

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn each_code_of_sqlite_has_its_kind() {
        let table = [
            (ffi::SQLITE_BUSY, "locked"),
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
        let place = tempfile::tempdir().unwrap();
        for (code, expected) in table {
            let error = Failure::from(sqlite(code)).at(&place.path().join("lango.db"));
            assert_eq!(name(&error), expected, "code {code}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "a probe leaves nothing behind");
    }

    #[test]
    fn the_system_names_quotas_and_read_only_file_systems() {
        let table = [
            (28, Some(Kind::DiskFull)),  // ENOSPC
            (122, Some(Kind::DiskFull)), // EDQUOT
            (30, Some(Kind::ReadOnly)),  // EROFS
            (13, Some(Kind::ReadOnly)),  // EACCES
            (5, None),                   // EIO
        ];
        for (number, expected) in table {
            let error = io::Error::from_raw_os_error(number);
            if cfg!(target_os = "linux") {
                assert_eq!(of_system(error.kind()), expected, "{error}");
            }
        }
    }

    #[test]
    fn an_error_tells_its_causes_and_the_code_of_sqlite() {
        let place = tempfile::tempdir().unwrap();
        let error = Failure::from(sqlite(ffi::SQLITE_IOERR_FSYNC)).at(&place.path().join("lango.db"));
        let told = error.with_causes();
        assert!(told.contains("lango.db cannot be read or written: "), "{told}");
        assert!(told.ends_with("(SQLite code 1034)"), "{told}");
    }
}
