//! Full-text search over the sessions of a user.
//!
//! | module | contents |
//! |---|---|
//! | [`segment`] | cuts text into terms |
//! | `document` | the searchable text of a message |
//! | `resolve` | replaces terms that no document has |
//! | `rank` | scores the documents that share terms with a query |
//! | `snippet` | where the terms are in a text |
//!
//! The index follows the log: a commit does not write to it. [`SessionSearch::index_next`] adds what was committed since, in
//! small transactions of its own, and remembers for each session the last row that it contains. So the index can be lost at
//! any time and costs a rebuild, never a message.

pub(crate) mod document;
pub(crate) mod rank;
pub(crate) mod resolve;
pub mod segment;
pub(crate) mod snippet;

use crate::{Pending, Seq, SessionKey};

/// A search in the sessions of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    pub user: String,
    /// Only sessions of this app.
    pub app: Option<String>,
    /// Only the session with this id.
    pub session: Option<String>,
    pub text: String,
    /// The maximum number of hits.
    pub limit: usize,
    /// Only sessions that were [added to the memory](SessionSearch::add_to_memory), up to the row that was the last one then.
    pub in_memory: bool,
    /// Rows of this session after this sequence number are no hits.
    pub until: Option<(SessionKey, Seq)>,
}

/// A message that shares terms with the query.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    pub key: SessionKey,
    pub seq: Seq,
    pub timestamp: f64,
    pub role: String,
    pub author: String,
    /// The part of the message that matches, on one line.
    pub snippet: String,
    pub score: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResults {
    /// Best first. Hits of about the same score are ordered by time, newest first.
    pub hits: Vec<SearchHit>,
    /// Whether all sessions are indexed. If not, messages may be missing.
    pub is_complete: bool,
}

/// The outcome of [`SessionSearch::index_next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexProgress {
    /// There may be more to index.
    More,
    /// All messages that were committed before the call are indexed.
    Complete,
}

/// Search, and the maintenance of its index.
pub trait SessionSearch: Send + Sync {
    fn search(&self, query: SearchQuery) -> Pending<'_, SearchResults>;

    /// Adds a session to the memory of its user, with its present rows.
    fn add_to_memory(&self, key: &SessionKey) -> Pending<'_, ()>;

    /// Indexes some of the messages that are not indexed yet. Concurrent calls of any number of processes index each message
    /// once.
    fn index_next(&self) -> Pending<'_, IndexProgress>;

    /// Returns when this process has committed messages that are not indexed. The commits of other processes are not noticed
    /// here; [`index_next`](Self::index_next) finds them after [`check_index`](Self::check_index).
    fn index_lags(&self) -> Pending<'_, ()>;

    /// Makes the next calls of [`index_next`](Self::index_next) look at all sessions.
    fn check_index(&self);

    /// Empties the index, so that it is built anew.
    fn reset_index(&self) -> Pending<'_, ()>;
}
