//! What can go wrong with a store, and whether trying again can help.

use crate::{Seq, SessionKey};
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    #[error("session {0} exists already")]
    Exists(SessionKey),
    #[error("session {key} has moved on: expected its end at {expected}, found it at {found}")]
    Conflict { key: SessionKey, expected: Seq, found: Seq },
    #[error("session {0} is being run by another process now")]
    Fenced(SessionKey),
    /// Somebody has the turn or waits for it: a step that would begin one has to queue.
    #[error("session {0} is in use")]
    Busy(SessionKey),
    /// Another process took the ticket or its sender withdrew it: the message must not enter the log twice.
    #[error("ticket {number} of session {key} is no longer waiting")]
    TicketGone { key: SessionKey, number: u64 },
    #[error("session {key} has no run {id}")]
    NoRun { key: SessionKey, id: String },
    /// Somebody else began it: the message of a request that was repeated must not enter the log twice.
    #[error("run {id} of session {key} has begun already")]
    RunBegun { key: SessionKey, id: String },
    #[error("the store is too busy: {waiting} writes are waiting")]
    QueueFull { waiting: usize },
    #[error(
        "{path} was written by a newer version (schema {found}, this one knows {known}); use that version, or another data directory"
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
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
    #[error("{path} cannot be opened")]
    Open { path: PathBuf, source: Cause },
    #[error("a stored row cannot be read: {what}")]
    Row { what: String, source: Cause },
    #[error("the store is closed")]
    Closed,
    #[error("the store failed")]
    Backend(#[source] Cause),
}

impl Error {
    /// Whether the same call may work a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::QueueFull { .. } | Self::Locked { .. } => true,
            Self::NotFound(_)
            | Self::Exists(_)
            | Self::Conflict { .. }
            | Self::Fenced(_)
            | Self::Busy(_)
            | Self::TicketGone { .. }
            | Self::NoRun { .. }
            | Self::RunBegun { .. }
            | Self::NewerSchema { .. }
            | Self::LangoInGo { .. }
            | Self::ReadOnly { .. }
            | Self::DiskFull { .. }
            | Self::Damaged { .. }
            | Self::Open { .. }
            | Self::Row { .. }
            | Self::Closed
            | Self::Backend(_) => false,
        }
    }
}
