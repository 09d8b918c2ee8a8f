//! Purging: a deleted session disappears at once, and its rows are deleted in slices, so that other writes need not wait.

use crate::Pending;
use std::time::Duration;

/// How much one transaction of a purge may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeSlice {
    /// The maximum number of rows.
    pub rows: usize,
    /// The slice ends with the first rows after this time.
    pub time: Duration,
}

/// What a slice left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeProgress {
    /// Rows of deleted sessions, or free pages of the file.
    More,
    Done,
}

pub trait Purge: Send + Sync {
    /// Deletes some rows of deleted sessions in one commit and, after the last one, returns free space to the file system. Any
    /// number of processes may call this. An interrupted purge continues with the next call.
    fn purge(&self, slice: PurgeSlice) -> Pending<'_, PurgeProgress>;
}
