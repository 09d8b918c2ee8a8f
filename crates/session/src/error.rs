//! Errors of a store, and whether a retry can help.

use crate::{Seq, SessionKey};
use std::{error::Error as _, path::PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("session {0} does not exist")]
    NotFound(SessionKey),
    #[error("session {0} already exists")]
    Exists(SessionKey),
    /// The user has as many sessions as [`NewSession::quota`](crate::NewSession::quota) admits.
    #[error("user {user} has the maximum of {quota} sessions")]
    QuotaReached { user: String, quota: u64 },
    #[error(
        "session {key} was changed concurrently: expected last sequence number {expected}, found {found}"
    )]
    Conflict { key: SessionKey, expected: Seq, found: Seq },
    /// A message id is used twice. If it is the id of the *last* message of a commit, the commit is a retry instead.
    #[error("session {key} has a message {id} already")]
    DuplicateMessage { key: SessionKey, id: String },
    #[error("the lease of session {0} was lost: another process runs it now")]
    Fenced(SessionKey),
    /// Another run holds the lease or is queued before this one.
    #[error("session {0} is in use")]
    Busy(SessionKey),
    /// The run has a status that does not admit the transition, or has another owner.
    #[error("run {id} of session {key} has another status or owner")]
    RunMoved { key: SessionKey, id: String },
    /// The run must be new, but the session has a run with this id.
    #[error("session {key} has a run {id} already")]
    RunExists { key: SessionKey, id: String },
    /// The idempotency key is known: the request was stored as this run.
    #[error("the request became run {id} of session {key} already")]
    Duplicate { key: SessionKey, id: String },
    /// The idempotency key is known for another session, message or options.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    #[error("the store is too busy: {waiting} writes are waiting")]
    QueueFull { waiting: usize },
    #[error(
        "{path} was written by a newer version (schema {found}, this one reads {known}); use that version, or another data directory"
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    /// Only for a file that is opened read-only: any other file is migrated.
    #[error(
        "{path} was written by an older version (schema {found}, this one reads {known}) and cannot be upgraded where it is; copy it to a directory that can be written"
    )]
    OlderSchema { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path} holds the sessions of Lango in Go; move it away with the files beside it, then `lango sessions import --from lango FILE` brings them along"
    )]
    LangoInGo { path: PathBuf },
    /// All connections to the database are in use.
    #[error("the store is too busy: all connections to {path} are in use")]
    PoolExhausted { path: PathBuf },
    /// The database does not answer. The outcome of a write is unknown, unless it is repeated with the same message id.
    #[error("the database {path} cannot be reached")]
    Unreachable { path: PathBuf, source: BoxError },
    #[error("{path} is locked by another program")]
    Locked { path: PathBuf, source: BoxError },
    #[error("{path} cannot be written: it is read-only")]
    ReadOnly { path: PathBuf, source: BoxError },
    #[error("there is no space left to write {path}")]
    DiskFull { path: PathBuf, source: BoxError },
    #[error(
        "{path} is damaged or not a database; move it away to start with an empty database, or restore a copy"
    )]
    Damaged { path: PathBuf, source: BoxError },
    /// Rows or pages of one session cannot be read. Other sessions are not affected.
    #[error("session {key} is damaged")]
    DamagedSession { key: SessionKey, source: BoxError },
    #[error("{path} was deleted while it was open")]
    Deleted { path: PathBuf },
    #[error("{path} was replaced by another file while it was open")]
    Replaced { path: PathBuf },
    /// The write-ahead log or its index was deleted or replaced. Acknowledged commits are in the database after a restart.
    #[error("{path}, which belongs to the database, was deleted or replaced while it was open")]
    Detached { path: PathBuf },
    /// An I/O error of the disk or the file system. A retry may succeed.
    #[error("{path} cannot be read or written")]
    Io { path: PathBuf, source: BoxError },
    #[error("{path} cannot be opened")]
    Open { path: PathBuf, source: BoxError },
    #[error("a stored row cannot be read: {what}")]
    Row { what: String, source: BoxError },
    #[error("the store is closed")]
    Closed,
    #[error("the store failed")]
    Backend(#[source] BoxError),
}

impl From<failpoint::InjectedFault> for Error {
    fn from(fault: failpoint::InjectedFault) -> Self {
        if fault.is_disk_full() {
            Self::DiskFull { path: PathBuf::new(), source: fault.into() }
        } else {
            Self::Backend(fault.into())
        }
    }
}

impl Error {
    /// Whether the storage failed, as opposed to a refused call. The call may succeed once the storage works again.
    pub fn is_storage_fault(&self) -> bool {
        matches!(
            self,
            Self::QueueFull { .. }
                | Self::PoolExhausted { .. }
                | Self::Unreachable { .. }
                | Self::Locked { .. }
                | Self::ReadOnly { .. }
                | Self::DiskFull { .. }
                | Self::Damaged { .. }
                | Self::Deleted { .. }
                | Self::Replaced { .. }
                | Self::Detached { .. }
                | Self::Io { .. }
                | Self::Open { .. }
                | Self::Backend(_)
        )
    }

    /// Whether a retry shortly after may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::QueueFull { .. }
                | Self::PoolExhausted { .. }
                | Self::Unreachable { .. }
                | Self::Locked { .. }
                | Self::Io { .. }
        )
    }

    /// The error with its causes, for a log line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let message = error.to_string();
            if !text.ends_with(&message) {
                text.push_str(": ");
                text.push_str(&message);
            }
            cause = error.source();
        }
        text
    }
}
