//! Usage: the tokens of model calls, summed by day, session, agent and model.
//!
//! Every commit of an answer adds the usage of its model calls. The sums are kept beside the log, because adding up the log would
//! take time in proportion to its length, and outlive their session: a deleted session leaves its sums without its id.

use crate::Pending;
use std::ops::AddAssign;

/// Tokens of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    pub calls: u64,
    /// Input tokens that the provider neither read from its prompt cache nor wrote to it.
    pub fresh: u64,
    /// Input tokens that the provider read from its prompt cache.
    pub cache_reads: u64,
    /// Input tokens that the provider wrote to its prompt cache.
    pub cache_writes: u64,
    /// Output tokens without reasoning.
    pub output: u64,
    pub reasoning: u64,
}

impl TokenCounts {
    /// All input tokens.
    pub const fn input(&self) -> u64 {
        self.fresh.saturating_add(self.cache_reads).saturating_add(self.cache_writes)
    }

    /// The columns in the order of the fields.
    pub(crate) const fn to_array(self) -> [u64; 6] {
        [self.calls, self.fresh, self.cache_reads, self.cache_writes, self.output, self.reasoning]
    }

    pub(crate) const fn from_array(counts: [u64; 6]) -> Self {
        let [calls, fresh, cache_reads, cache_writes, output, reasoning] = counts;
        Self { calls, fresh, cache_reads, cache_writes, output, reasoning }
    }
}

impl AddAssign for TokenCounts {
    fn add_assign(&mut self, other: Self) {
        let mut sum = self.to_array();
        for (count, added) in sum.iter_mut().zip(other.to_array()) {
            *count = count.saturating_add(added);
        }
        *self = Self::from_array(sum);
    }
}

/// What the tokens of a session are counted for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageKey {
    /// Days since 1970-01-01 in UTC.
    pub day: i64,
    pub agent: String,
    /// `provider/model`; empty if it is unknown.
    pub model: String,
}

/// The usage of model calls of one agent and model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEntry {
    pub key: UsageKey,
    pub counts: TokenCounts,
}

/// A dimension by which sums are told apart. The model always is, because prices depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    Day,
    App,
    User,
    Session,
    Agent,
}

/// Selects usage. An empty query selects everything.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    pub app: Option<String>,
    pub user: Option<String>,
    /// Only this session. Usage of deleted sessions is not found by their id.
    pub session: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The first day, inclusive.
    pub from: Option<i64>,
    /// The last day, inclusive.
    pub to: Option<i64>,
    /// The dimensions of the result besides the model.
    pub groups: Vec<UsageGroup>,
}

/// The usage of one model within one group. A dimension that is not part of the query's groups is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSum {
    pub model: String,
    pub day: Option<i64>,
    pub app: Option<String>,
    pub user: Option<String>,
    /// Empty for deleted sessions.
    pub session: Option<String>,
    pub agent: Option<String>,
    pub counts: TokenCounts,
}

/// A row of an earlier version whose usage is not part of the sums yet.
#[derive(Clone, Debug, PartialEq)]
pub struct UncountedRow {
    /// Identifies the session of the row.
    pub session: u64,
    pub author: String,
    pub timestamp: f64,
    pub meta: String,
}

/// The next rows of the backlog.
#[derive(Clone, Debug, PartialEq)]
pub struct UncountedPage {
    /// Where the page begins and ends. Passed to [`UsageLog::count_page`].
    pub range: (i64, i64),
    /// The rows of the page that may contain usage.
    pub rows: Vec<UncountedRow>,
}

pub trait UsageLog: Send + Sync {
    /// Sums, in no particular order.
    fn usage(&self, query: UsageQuery) -> Pending<'_, Vec<UsageSum>>;

    /// The next page of at most `limit` rows of the backlog; `None` if everything is counted.
    fn uncounted(&self, limit: usize) -> Pending<'_, Option<UncountedPage>>;

    /// Adds the usage of a page of the backlog, in one commit with its progress. A page that another process has counted since
    /// changes nothing. `entries` have the session of their row.
    fn count_page(&self, range: (i64, i64), entries: Vec<(u64, UsageEntry)>) -> Pending<'_, ()>;
}
