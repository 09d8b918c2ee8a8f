//! Reading a whole session without holding it: pages, one after the other.

use crate::{Fact, Pending, Scope, Seq, SessionKey, Stored};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The page begins behind this one.
    pub after: Seq,
    pub limit: usize,
}

/// One change of the state, at its place between the messages.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEntry {
    pub seq: Seq,
    pub scope: Scope,
    pub key: String,
    pub value: Value,
}

/// Here a missing session is [`Error::NotFound`](crate::Error::NotFound) where an empty answer means "the end";
/// elsewhere it answers like an empty one.
pub trait SessionLog: Send + Sync {
    /// The next rows of the log, oldest first; empty at its end.
    fn read(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<Stored>>;

    /// The next rows that a run appended, oldest first; empty at the end.
    fn read_run(&self, key: &SessionKey, run: u64, page: PageRequest) -> Pending<'_, Vec<Stored>>;

    /// The next changes of the state that this session made, oldest first. A page ends only between two
    /// appends, so it may be longer than its limit.
    fn state_changes(&self, key: &SessionKey, page: PageRequest) -> Pending<'_, Vec<StateEntry>>;

    /// A fact by its name, carried or not.
    fn fact(&self, key: &SessionKey, kind: &str, id: &str) -> Pending<'_, Option<Fact>>;
}
