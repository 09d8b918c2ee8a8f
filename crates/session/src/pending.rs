//! Pending work of a session, such as open calls and questions: state derived from the log, so that a reader of the tail
//! need not read the rest. The database table is `facts`.

/// An entry of the pending work, identified by `kind` and `id`. `value` is opaque JSON text of the caller. The commit that appends
/// the underlying event also sets, replaces or clears the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    pub kind: String,
    pub id: String,
    pub value: String,
    /// Whether every [`Snapshot`](crate::Snapshot) includes the entry. Other entries are looked up by kind and id, so that their
    /// number does not affect the cost of a load.
    pub carried: bool,
}

/// A change of the pending work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingEntryChange {
    Set(PendingEntry),
    Clear { kind: String, id: String },
}
