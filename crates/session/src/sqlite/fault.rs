//! What SQLite says, in the words of this crate. No message of SQLite is ever matched: only its codes.

use crate::Error;
use rusqlite::ErrorCode;
use std::{path::Path, sync::Arc};

/// Why a piece of work on a connection did not answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The store's own no: a conflict, a missing session. The database is well.
    Refused(Error),
    Sql(rusqlite::Error),
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

impl Failure {
    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sql(error) => told(path, &Arc::new(error)),
            Self::Panicked => Error::Backend("a write panicked; nothing of it was stored".into()),
        }
    }
}

/// One failure may be the answer to many: a batch whose COMMIT failed tells each of its jobs.
pub(super) fn told(path: &Path, error: &Arc<rusqlite::Error>) -> Error {
    let path = path.to_path_buf();
    let source = Box::new(Arc::clone(error));
    if is_unreadable(error) {
        return Error::Row { what: error.to_string(), source };
    }
    if is_without_room(error) {
        return Error::DiskFull { path, source };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path, source },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { path, source },
        Some(ErrorCode::DiskFull) => Error::DiskFull { path, source },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged { path, source },
        Some(ErrorCode::CannotOpen) => Error::Open { path, source },
        Some(_) | None => Error::Backend(source),
    }
}

/// The index of the write-ahead log is made when the file is opened: on a full disk that is what fails, with a code of its own.
fn is_without_room(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// The row came back, but it is not what this version wrote.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn name(error: &Error) -> &'static str {
        match error {
            Error::Locked { .. } => "locked",
            Error::ReadOnly { .. } => "read-only",
            Error::DiskFull { .. } => "full",
            Error::Damaged { .. } => "damaged",
            Error::Open { .. } => "open",
            Error::Backend(_) => "backend",
            other => panic!("SQLite cannot say {other:?}"),
        }
    }

    #[test]
    fn each_code_of_sqlite_has_its_name() {
        let table = [
            (ffi::SQLITE_BUSY, "locked"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "locked"),
            (ffi::SQLITE_LOCKED, "locked"),
            (ffi::SQLITE_READONLY, "read-only"),
            (ffi::SQLITE_READONLY_DIRECTORY, "read-only"),
            (ffi::SQLITE_READONLY_DBMOVED, "read-only"),
            (ffi::SQLITE_PERM, "read-only"),
            (ffi::SQLITE_FULL, "full"),
            (ffi::SQLITE_IOERR_SHMSIZE, "full"),
            (ffi::SQLITE_CORRUPT, "damaged"),
            (ffi::SQLITE_NOTADB, "damaged"),
            (ffi::SQLITE_CANTOPEN, "open"),
            (ffi::SQLITE_IOERR, "backend"),
            (ffi::SQLITE_CONSTRAINT, "backend"),
        ];
        for (code, expected) in table {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let told = told(Path::new("lango.db"), &Arc::new(error));
            assert_eq!(name(&told), expected, "code {code}");
        }
    }
}
