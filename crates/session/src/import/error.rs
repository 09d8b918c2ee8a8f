//! Errors of the source database, each with a hint for the user.

use rusqlite::{ErrorCode, ffi};
use std::{io, path::PathBuf};

/// Errors of SQLite are classified by code, never by message. Their own messages are no part of the error's text or sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportSourceError {
    #[error("there is no file {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} is encrypted or not a database; if Lango in Go has encrypted it, its `lango security db-decrypt` makes it readable",
        path.display()
    )]
    NotADatabase { path: PathBuf },
    #[error("{} is a database of this Lango; its sessions need no import", path.display())]
    Ours { path: PathBuf },
    #[error("{} is a database, but not one of Lango in Go: it has no {missing}", path.display())]
    NotLango { path: PathBuf, missing: String },
    #[error("{} is locked by another program; end that program, or import from a copy", path.display())]
    Locked { path: PathBuf, cause: rusqlite::Error },
    /// Reading a write-ahead log needs a writable directory for its index.
    #[error(
        "{} cannot be opened in its directory; copy it with the files beside it to a directory that can be written",
        path.display()
    )]
    Directory { path: PathBuf, cause: rusqlite::Error },
    /// A hot rollback journal can be rolled back only with write access.
    #[error(
        "{} was not closed properly; open it once with Lango in Go, and import it then",
        path.display()
    )]
    Unfinished { path: PathBuf, cause: rusqlite::Error },
    #[error("{} is damaged; import from a good copy, or from what `sqlite3 FILE .recover` can save", path.display())]
    Damaged { path: PathBuf, cause: rusqlite::Error },
    #[error("{} cannot be read as a database", path.display())]
    Sql { path: PathBuf, cause: rusqlite::Error },
}

impl ImportSourceError {
    pub(super) fn sql(path: PathBuf, cause: rusqlite::Error) -> Self {
        match cause.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path, cause },
            Some(ErrorCode::ReadOnly) if is_hot(&cause) => Self::Unfinished { path, cause },
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => Self::Directory { path, cause },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, cause },
            Some(_) | None => Self::Sql { path, cause },
        }
    }
}

/// Whether the database has a hot rollback journal.
fn is_hot(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_ROLLBACK)
}
