//! Paged reads of a session's log.

use crate::{Pending, PendingEntry, Scope, Seq, SessionKey, StoredMessage};
use serde_json::Value;

/// A page of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The cursor: the page starts after this sequence number.
    pub after: Seq,
    /// The maximum number of rows.
    pub limit: usize,
    /// The page ends with the row that reaches this sum of text, so it has at least one row. State changes are not counted.
    pub max_bytes: usize,
}

/// A state change with its sequence number in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEntry {
    pub seq: Seq,
    pub scope: Scope,
    pub key: String,
    pub value: Value,
}

/// The paged reads fail with [`Error::NotFound`](crate::Error::NotFound) if the session does not exist, because an empty page
/// means the end of the log.
pub trait SessionLog: Send + Sync {
    /// The next rows of the log, oldest first. Empty at the end.
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StoredMessage>>;

    /// The next rows of a run, oldest first. Empty at the end.
    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<StoredMessage>>;

    /// The next state changes of this session, oldest first. A page contains whole commits, so it may exceed its limit.
    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>>;

    /// An entry of the pending work by kind and id, carried or not. `None` if it or the session does not exist.
    fn pending_entry(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<PendingEntry>>;
}
