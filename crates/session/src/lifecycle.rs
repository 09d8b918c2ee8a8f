//! The state machine of a run and its lease: an enum of states, and one pure function, [`transition`], that admits transitions.
//!
//! Both backends call [`transition`] inside the transaction that stores its result, so each transition is one commit. The
//! function uses no clock and no storage; `tests/lifecycle_model` explores it exhaustively.
//!
//! ```text
//!                  Start (the session is free)
//!       ┌───────────────────────────────────────────┐
//!       │                                           ▼
//!  new message ── Enqueue ──▶ queued ── Start ──▶ running ── Finish ──▶ done · failed · cancelled · interrupted
//!                             │    ▲               │   ▲
//!         Withdraw, Supersede │    │ Enqueue       │   │ Start
//!                             ▼    │ (an answer)   │   │ (an answer)
//!            cancelled · failed    │               │   │
//!                                  │        Finish │   │
//!                                  │  (a question) ▼   │
//!                                  └───────────── waiting ── Supersede, Cancel ──▶ cancelled
//! ```
//!
//! `Withdraw` ends a queued run as `cancelled` or `failed`, `Supersede` as `cancelled`. `TakeOver`, which is not drawn, changes
//! the owner of a `queued` or `running` run and keeps its state.
//!
//! A session has at most one `running` run, and that run holds the session's lease. The epoch is the fencing token of the lease:
//! it grows when a run starts, is taken over while it runs, finishes, or is cancelled while it waits, and every commit with an
//! earlier epoch is refused.

/// The state of a run. `Done`, `Failed`, `Cancelled` and `Interrupted` are terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStatus {
    /// The message is stored; the run waits for the lease.
    Queued,
    /// The message is in the log; the run holds the lease.
    Running,
    /// The run asked a person a question and holds no lease; the answer continues it.
    Waiting,
    Done,
    Failed,
    Cancelled,
    /// The run was abandoned and is not resumed.
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

    /// Whether the run has ended. A terminal state never changes.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Cancelled | Self::Interrupted => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }

    /// Whether the run has an owner. If the owner dies, another one takes the run over.
    pub fn is_owned(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// The lease and the queue of a session: the part that a transition depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnState {
    /// The current fencing token.
    pub epoch: u64,
    /// Whether a run holds the lease.
    pub is_leased: bool,
    /// The smallest ticket in the queue.
    pub first_ticket: Option<u64>,
}

/// A run: the part that a transition depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunState<O> {
    pub status: RunStatus,
    pub owner: O,
    /// Set while the run is `queued`.
    pub ticket: Option<u64>,
}

/// A change of a run's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transition<O> {
    /// Appends the run to the queue: new or `waiting` → `queued`. Tickets grow.
    Enqueue { owner: O, ticket: u64 },
    /// The run acquires the lease: new, `queued` or `waiting` → `running`. A queued run must be the first of the queue and
    /// belong to `owner`; any other run needs an empty queue.
    Start {
        owner: O,
        /// The epoch that the caller expects, if any.
        if_epoch: Option<u64>,
    },
    /// The last commit of a turn releases the lease: `running` → `to`, which is terminal or `waiting`.
    Finish { epoch: u64, to: RunStatus },
    /// The run gets another owner, because `from` is dead. A running run gets a new epoch, which fences `from`.
    TakeOver { from: O, owner: O },
    /// The run leaves the queue before it starts: `queued` → `to`, which is `cancelled` or `failed`.
    Withdraw { owner: O, to: RunStatus },
    /// Another message superseded the question: `waiting` → `cancelled`, or `queued` → `cancelled` if the answer is queued.
    Supersede,
    /// The question is withdrawn: `waiting` → `cancelled`. The commit appends to the log, so no run may hold the lease, and
    /// the epoch grows to invalidate cached copies of the session.
    Cancel,
}

/// Why a transition is refused. A refused transition changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransitionRefusal {
    /// Another run holds the lease or is queued before this one.
    Busy,
    /// The epoch is not the current one: the lease was lost or released.
    Fenced,
    /// The run is in a state that this transition does not start from, or belongs to another owner.
    Moved,
}

/// The session and the run after a transition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextState<O> {
    pub epoch: u64,
    pub is_leased: bool,
    pub run: RunState<O>,
}

/// Applies a transition to a run. `run` is `None` for a new run.
pub fn transition<O: Clone + PartialEq>(
    turns: &TurnState,
    run: Option<&RunState<O>>,
    change: &Transition<O>,
) -> Result<NextState<O>, TransitionRefusal> {
    let status = run.map(|run| run.status);
    let next = |epoch, is_leased, run| Ok(NextState { epoch, is_leased, run });
    match change {
        Transition::Enqueue { owner, ticket } => match status {
            None | Some(RunStatus::Waiting) => {
                let run = RunState { status: RunStatus::Queued, owner: owner.clone(), ticket: Some(*ticket) };
                next(turns.epoch, turns.is_leased, run)
            }
            Some(_) => Err(TransitionRefusal::Moved),
        },
        Transition::Start { owner, if_epoch } => {
            admit_start(turns, run, owner)?;
            if if_epoch.is_some_and(|epoch| epoch != turns.epoch) {
                return Err(TransitionRefusal::Fenced);
            }
            let run = RunState { status: RunStatus::Running, owner: owner.clone(), ticket: None };
            next(turns.epoch + 1, true, run)
        }
        Transition::Finish { epoch, to } => {
            fence(turns, *epoch)?;
            let run = run.filter(|run| run.status == RunStatus::Running).ok_or(TransitionRefusal::Moved)?;
            if !(to.is_terminal() || *to == RunStatus::Waiting) {
                return Err(TransitionRefusal::Moved);
            }
            next(turns.epoch + 1, false, RunState { status: *to, ..run.clone() })
        }
        Transition::TakeOver { from, owner } => {
            let run = run
                .filter(|run| run.status.is_owned() && run.owner == *from)
                .ok_or(TransitionRefusal::Moved)?;
            let fences = u64::from(run.status == RunStatus::Running);
            next(turns.epoch + fences, turns.is_leased, RunState { owner: owner.clone(), ..run.clone() })
        }
        Transition::Withdraw { owner, to } => {
            let own = |run: &&RunState<O>| run.status == RunStatus::Queued && run.owner == *owner;
            let run = run.filter(own).ok_or(TransitionRefusal::Moved)?;
            if !matches!(to, RunStatus::Cancelled | RunStatus::Failed) {
                return Err(TransitionRefusal::Moved);
            }
            next(turns.epoch, turns.is_leased, RunState { status: *to, ticket: None, ..run.clone() })
        }
        Transition::Supersede => {
            let open = |run: &&RunState<O>| matches!(run.status, RunStatus::Waiting | RunStatus::Queued);
            let run = run.filter(open).ok_or(TransitionRefusal::Moved)?;
            let run = RunState { status: RunStatus::Cancelled, ticket: None, ..run.clone() };
            next(turns.epoch, turns.is_leased, run)
        }
        Transition::Cancel => {
            let run = run.filter(|run| run.status == RunStatus::Waiting).ok_or(TransitionRefusal::Moved)?;
            if turns.is_leased {
                return Err(TransitionRefusal::Busy);
            }
            next(turns.epoch + 1, false, RunState { status: RunStatus::Cancelled, ..run.clone() })
        }
    }
}

/// Admits a commit only if its epoch is the current one.
pub fn fence(turns: &TurnState, epoch: u64) -> Result<(), TransitionRefusal> {
    if turns.epoch == epoch { Ok(()) } else { Err(TransitionRefusal::Fenced) }
}

fn admit_start<O: PartialEq>(
    turns: &TurnState,
    run: Option<&RunState<O>>,
    owner: &O,
) -> Result<(), TransitionRefusal> {
    let ticket = match run {
        None => None,
        Some(run) if run.status == RunStatus::Waiting => None,
        Some(run) if run.status == RunStatus::Queued && run.owner == *owner => run.ticket,
        Some(_) => return Err(TransitionRefusal::Moved),
    };
    if turns.is_leased || turns.first_ticket.is_some_and(|first| Some(first) != ticket) {
        return Err(TransitionRefusal::Busy);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
