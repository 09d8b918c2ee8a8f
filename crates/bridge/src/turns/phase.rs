//! Where the turn of a run is.

use super::abandon::AbandonedPhase;
use session::{Error, Lease, RunStatus};

/// Where the turn of a run is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing is stored by this handle. The last attempt to start may have been refused.
    Unstarted(Option<Refused>),
    /// The message is stored in the queue.
    Queued {
        ticket: u64,
        /// The ids of the messages of the last attempt to start, if the store failed at it: it may be stored all the same.
        attempt: Vec<String>,
    },
    /// The commit that starts the run is under way.
    Starting,
    Running(Lease),
    /// The run left `running` or the queue, by a commit of this handle.
    Ended(RunStatus),
    /// Another owner has the run.
    Lost,
}

impl Phase {
    /// Where a turn is whose start failed. `queued` is its place in the queue, `attempt` what was to be stored.
    pub(super) fn after_failed_start(
        error: &Error,
        queued: Option<(u64, Vec<String>)>,
        relies_on_memory: bool,
    ) -> Self {
        match (error, queued) {
            (Error::RunMoved { .. }, Some(_)) => Self::Lost,
            (error, Some((ticket, attempt))) => {
                let attempt = if error.is_storage_fault() { attempt } else { Vec::new() };
                Self::Queued { ticket, attempt }
            }
            // What was in memory is not what is stored: reading it tells.
            (Error::NotFound(_), None) if relies_on_memory => Self::Unstarted(Some(Refused::Stale)),
            (error, None) => Self::Unstarted(Refused::of(error)),
        }
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Running(lease) => Some(lease),
            Self::Unstarted(_) | Self::Queued { .. } | Self::Starting | Self::Ended(_) | Self::Lost => None,
        }
    }

    pub(super) fn ticket(&self) -> Option<u64> {
        match self {
            Self::Queued { ticket, .. } => Some(*ticket),
            Self::Unstarted(_) | Self::Starting | Self::Running(_) | Self::Ended(_) | Self::Lost => None,
        }
    }

    pub(super) fn refusal(&self) -> Option<&Refused> {
        match self {
            Self::Unstarted(refused) => refused.as_ref(),
            Self::Queued { .. } | Self::Starting | Self::Running(_) | Self::Ended(_) | Self::Lost => None,
        }
    }

    /// What a turn that is dropped leaves open.
    pub(super) fn left(&self) -> Option<AbandonedPhase> {
        match self {
            Self::Queued { .. } => Some(AbandonedPhase::Queued),
            Self::Starting => Some(AbandonedPhase::Starting),
            Self::Running(lease) => Some(AbandonedPhase::Running(lease.clone())),
            Self::Unstarted(_) | Self::Ended(_) | Self::Lost => None,
        }
    }
}

/// Why a run could not be started or queued; nothing is stored then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another run holds the lease or is queued before.
    Busy,
    /// The session is not what the caller read.
    Stale,
    /// The idempotency key stands for this run.
    Duplicate(String),
    /// The idempotency key stands for another request.
    KeyReused,
}

impl Refused {
    pub(super) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Busy(_) => Some(Self::Busy),
            Error::Fenced(_) | Error::Conflict { .. } => Some(Self::Stale),
            Error::Duplicate { id, .. } => Some(Self::Duplicate(id.clone())),
            Error::KeyReused => Some(Self::KeyReused),
            _ => None,
        }
    }
}
