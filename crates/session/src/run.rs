//! What became of each request: a run has an id, a status and its place in the log.

use crate::{Pending, Seq, SessionKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    Queued,
    Running,
    /// Stopped at a question to a person; an answer goes on with it.
    Waiting,
    Done,
    Failed,
    Cancelled,
    /// Its process died in the middle of it.
    Interrupted,
}

impl RunStatus {
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_over(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Cancelled | Self::Interrupted => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    pub id: String,
    pub key: SessionKey,
    pub status: RunStatus,
    /// A repeated request with this key is the same run.
    pub idempotency_key: Option<String>,
    pub owner: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub id: String,
    pub key: SessionKey,
    pub status: RunStatus,
    pub idempotency_key: Option<String>,
    pub owner: String,
    /// The log up to here existed before the run.
    pub started_after: Seq,
    /// The last place in the log that the run took; where it began if it took none.
    pub last_seq: Seq,
    pub error: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
}

/// A change of status that commits with the event that caused it, or alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunUpdate {
    pub id: String,
    pub status: RunStatus,
    pub error: Option<String>,
}

impl Run {
    /// Whether a request for this run comes too late: it has a key, and somebody else has begun it.
    pub(crate) fn is_begun_before(&self, new: &NewRun) -> bool {
        new.idempotency_key.is_some() && self.status != RunStatus::Queued && self.owner != new.owner
    }
}

pub trait RunLog: Send + Sync {
    /// Records a run. With an id or an idempotency key that the session has seen, answers with that earlier run.
    fn start(&self, run: NewRun) -> Pending<'_, Run>;

    fn run(&self, key: &SessionKey, id: &str) -> Pending<'_, Option<Run>>;

    /// The runs of a session, newest first; at most `limit`.
    fn runs(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Run>>;
}
