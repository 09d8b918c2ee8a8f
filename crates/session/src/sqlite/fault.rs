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
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path, source },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { path, source },
        Some(ErrorCode::DiskFull) => Error::DiskFull { path, source },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged { path, source },
        Some(ErrorCode::CannotOpen) => Error::Open { path, source },
        Some(_) | None => Error::Backend(source),
    }
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
