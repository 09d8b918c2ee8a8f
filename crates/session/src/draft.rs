//! Drafts: streamed text of an answer, stored beside the log until its event is appended.

use crate::{Lease, Pending};

/// The draft of a session. The chunks are opaque JSON text of the caller, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The id of the run that wrote it.
    pub run: String,
    pub chunks: Vec<String>,
}

pub trait Drafts: Send + Sync {
    /// Appends a chunk to the session's draft. [`Error::Fenced`](crate::Error::Fenced) if the lease was lost.
    fn extend_draft(&self, lease: &Lease, chunk: String) -> Pending<'_, ()>;
}
