//! Facts: pending work of a session, such as open calls and questions. They are state derived from the log, so that a reader
//! of the tail need not read the rest.

/// A piece of pending work, identified by `kind` and `id`. `value` is opaque JSON text of the caller. The commit that appends
/// the underlying event also sets, replaces or clears the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub kind: String,
    pub id: String,
    pub value: String,
    /// Whether every [`Snapshot`](crate::Snapshot) includes the fact. Other facts are looked up by kind and id, so that their
    /// number does not affect the cost of a load.
    pub carried: bool,
}

/// A change of the pending work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactChange {
    Set(Fact),
    Clear { kind: String, id: String },
}
