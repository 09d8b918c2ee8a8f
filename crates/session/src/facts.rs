//! What a reader of the tail must know about the part of the log that it did not read.

/// A fact that appends keep up to date. `kind` and `id` name it; `value` is the writer's JSON text.
/// The store does not look inside: a fact is set, replaced and cleared by the same append that makes it true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub kind: String,
    pub id: String,
    pub value: String,
    /// Only a fact that is carried comes along with every [`Snapshot`](crate::Snapshot); the others are asked for by name,
    /// so that a session may hold any number of them and still load at the same cost.
    pub carried: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactChange {
    Set(Fact),
    Clear { kind: String, id: String },
}
