//! What can go wrong with a store, and whether trying again can help.

use crate::{Seq, SessionKey};
use std::{error::Error as _, path::PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    #[error("session {0} exists already")]
    Exists(SessionKey),
    #[error("session {key} has moved on: expected its end at {expected}, found it at {found}")]
    Conflict { key: SessionKey, expected: Seq, found: Seq },
    /// A message id is unique in its session. A commit whose *last* message is stored is answered as repeated instead.
    #[error("session {key} has a message {id} already")]
    DuplicateMessage { key: SessionKey, id: String },
    #[error("session {0} is being run by another process now")]
    Fenced(SessionKey),
    /// Another run holds the lease or is queued before this one.
    #[error("session {0} is in use")]
    Busy(SessionKey),
    /// The run is in a state that the transition does not start from, or belongs to another owner.
    #[error("run {id} of session {key} has moved on")]
    RunMoved { key: SessionKey, id: String },
    /// The idempotency key is known: the request became this run.
    #[error("the request became run {id} of session {key} already")]
    Duplicate { key: SessionKey, id: String },
    /// The idempotency key is known, for another session, message or options.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    #[error("the store is too busy: {waiting} writes are waiting")]
    QueueFull { waiting: usize },
    #[error(
        "{path} was written by a newer version (schema {found}, this one knows {known}); use that version, or another data directory"
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    /// Only of a file that is opened for reading: any other is upgraded.
    #[error(
        "{path} was written by an older version (schema {found}, this one reads {known}) and cannot be upgraded where it is; copy it to a directory that can be written"
    )]
    OlderSchema { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path} holds the sessions of Lango in Go; move it away with the files beside it, then `lango sessions import --from lango FILE` brings them along"
    )]
    LangoInGo { path: PathBuf },
    #[error("{path} is locked by another program")]
    Locked { path: PathBuf, source: Cause },
    #[error("{path} cannot be written: it is read-only")]
    ReadOnly { path: PathBuf, source: Cause },
    #[error("there is no space left to write {path}")]
    DiskFull { path: PathBuf, source: Cause },
    #[error("{path} is damaged or not a database; move it away to start anew, or restore a copy")]
    Damaged { path: PathBuf, source: Cause },
    /// Rows or pages of one session cannot be read. Other sessions are as they were.
    #[error("session {key} is damaged")]
    DamagedSession { key: SessionKey, source: Cause },
    #[error("{path} was deleted while it was open")]
    Deleted { path: PathBuf },
    #[error("{path} was replaced by another file while it was open")]
    Replaced { path: PathBuf },
    /// The write-ahead log or its index. What was acknowledged is in the database by the next start.
    #[error("{path}, which belongs to the database, was deleted or replaced while it was open")]
    Detached { path: PathBuf },
    /// The disk or the file system failed to read or write. A later attempt may work.
    #[error("{path} cannot be read or written")]
    Io { path: PathBuf, source: Cause },
    #[error("{path} cannot be opened")]
    Open { path: PathBuf, source: Cause },
    #[error("a stored row cannot be read: {what}")]
    Row { what: String, source: Cause },
    #[error("the store is closed")]
    Closed,
    #[error("the store failed")]
    Backend(#[source] Cause),
}

impl From<failpoint::Fault> for Error {
    fn from(fault: failpoint::Fault) -> Self {
        if fault.is_disk_full() {
            Self::DiskFull { path: PathBuf::new(), source: fault.into() }
        } else {
            Self::Backend(fault.into())
        }
    }
}

impl Error {
    /// Whether the store failed, as opposed to refusing a call for a reason: the same call may work when the store does.
    pub fn is_storage_fault(&self) -> bool {
        matches!(
            self,
            Self::QueueFull { .. }
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

    /// Whether the same call may work a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::Locked { .. } | Self::Io { .. })
    }

    /// The error with its causes, for a log.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.ends_with(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        text
    }
}
