//! The phases of a turn.

use super::abandon::AbandonedPhase;
use session::{Error, Lease, RunStatus};

/// The phase of a turn.
#[derive(Debug)]
pub(super) enum Phase {
    /// This handle has stored nothing. Holds the refusal of the last attempt to start.
    Unstarted(Option<Refused>),
    /// The message is stored in the queue.
    Queued {
        ticket: u64,
        /// Message ids of the last attempt to start, if it failed with a store fault: the commit may be durable
        /// nevertheless.
        attempt: Vec<String>,
    },
    /// The commit that starts the run is in flight.
    Starting,
    Running(Lease),
    /// A commit of this handle ended the run, or removed it from the queue.
    Ended(RunStatus),
    /// Another owner has the run.
    Lost,
}

impl Phase {
    /// The phase after a failed start. `queued` holds the ticket and the message ids of the attempt, if the run was
    /// queued.
    pub(super) fn after_failed_start(
        error: &Error,
        queued: Option<(u64, Vec<String>)>,
        is_cached: bool,
    ) -> Self {
        match (error, queued) {
            (Error::RunMoved { .. }, Some(_)) => Self::Lost,
            (error, Some((ticket, attempt))) => {
                let attempt = if error.is_storage_fault() { attempt } else { Vec::new() };
                Self::Queued { ticket, attempt }
            }
            // The cached session may be stale; a read from the store decides.
            (Error::NotFound(_), None) if is_cached => Self::Unstarted(Some(Refused::Stale)),
            (error, None) => Self::Unstarted(Refused::from_error(error)),
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

    /// The run that a dropped turn must end.
    pub(super) fn abandoned_phase(&self) -> Option<AbandonedPhase> {
        match self {
            Self::Queued { .. } => Some(AbandonedPhase::Queued),
            Self::Starting => Some(AbandonedPhase::Starting),
            Self::Running(lease) => Some(AbandonedPhase::Running(lease.clone())),
            Self::Unstarted(_) | Self::Ended(_) | Self::Lost => None,
        }
    }
}

/// Why a run could not be started or queued. Nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another run holds the lease or has an earlier queue position.
    Busy,
    /// The session has changed since the caller read it.
    Stale,
    /// The idempotency key belongs to this run.
    Duplicate(String),
    /// The idempotency key was used for another request.
    KeyReused,
    /// The session has a run with the id of the new one.
    RunExists,
}

impl Refused {
    pub(super) fn from_error(error: &Error) -> Option<Self> {
        match error {
            Error::Busy(_) => Some(Self::Busy),
            Error::Fenced(_) | Error::Conflict { .. } => Some(Self::Stale),
            Error::Duplicate { id, .. } => Some(Self::Duplicate(id.clone())),
            Error::KeyReused => Some(Self::KeyReused),
            Error::RunExists { .. } => Some(Self::RunExists),
            _ => None,
        }
    }
}
