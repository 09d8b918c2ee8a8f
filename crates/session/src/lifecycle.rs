//! The lifecycle of a run and of the lease that it holds: an enum of states and one pure function that admits transitions.
//!
//! Both backends call [`transition`] inside the transaction that stores its result, so each transition is one commit. The
//! function knows no clock and no storage; `tests/lifecycle_model` explores it exhaustively.
//!
//! ```text
//!            Enqueue            Start             Finish
//!   (new) ───────────▶ queued ─────────▶ running ─────────▶ done · failed · interrupted · cancelled
//!     │                  │ ▲                ▲ │
//!     │      Withdraw ◀──┘ │ Enqueue        │ │ Finish
//!     │  (cancelled/failed)│                │ ▼
//!     └────────────────────┼────Start───▶ waiting ── Supersede, Cancel ──▶ cancelled
//! ```
//!
//! A session has at most one `running` run: that run *is* the lease. Its epoch fences every commit; the epoch grows when a
//! lease is acquired, taken over or released, so a commit with an old epoch is refused whatever happened since.

/// The state of a run. `Done`, `Failed`, `Cancelled` and `Interrupted` are terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStatus {
    /// Its message is stored and waits for the session's lease.
    Queued,
    /// Its message is in the log; the run holds the session's lease.
    Running,
    /// It asked a person and holds no lease; the answer continues the same run.
    Waiting,
    Done,
    Failed,
    Cancelled,
    /// It was abandoned in the middle and will not be resumed.
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

    /// Whether the run has ended: a terminal state never changes.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Cancelled | Self::Interrupted => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }

    /// Whether an owner is responsible for the run: if the owner dies, another one takes it over.
    pub fn is_owned(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// The lease and the queue of one session, as far as a transition depends on them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turns {
    /// The fencing number of the newest lease.
    pub epoch: u64,
    /// Whether a run holds the lease.
    pub is_leased: bool,
    /// The smallest ticket in the queue.
    pub first_ticket: Option<u64>,
}

/// One run, as far as a transition depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunState<O> {
    pub status: RunStatus,
    pub owner: O,
    /// Its place in the queue while it is `queued`.
    pub ticket: Option<u64>,
}

/// What is to happen to a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transition<O> {
    /// The message is stored behind all others: new or `waiting` → `queued`. Tickets grow.
    Enqueue { owner: O, ticket: u64 },
    /// The message enters the log and the run acquires the lease: new, `queued` or `waiting` → `running`. A queued run must
    /// be the first of the queue and still belong to `owner`; any other needs an empty queue.
    Start {
        owner: O,
        /// The epoch that the session had when the caller read it, if it relies on that.
        if_epoch: Option<u64>,
    },
    /// The last commit of a turn: `running` → `to`, which is terminal or `waiting`. The lease is released.
    Finish { epoch: u64, to: RunStatus },
    /// Another owner becomes responsible, because `from` is gone. A running run gets a new epoch: `from` is fenced.
    TakeOver { from: O, owner: O },
    /// A queued run leaves the queue without having run: `queued` → `to`, `cancelled` or `failed`.
    Withdraw { owner: O, to: RunStatus },
    /// Another message settled the question: `waiting` → `cancelled`, and `queued` too if it is the answer that waits.
    Supersede,
    /// Its question is withdrawn without another message: `waiting` → `cancelled`. The log changes, so nobody may hold the
    /// lease; copies of the session in memory are out of date by the epoch.
    Cancel,
}

/// Why a transition is not admitted. Nothing changes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another run holds the lease or is queued before this one.
    Busy,
    /// The epoch is not the current one: another owner has, or had, the lease.
    Fenced,
    /// The run is in a state that this transition does not start from, or belongs to another owner.
    Moved,
}

/// The session and the run after a transition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Next<O> {
    pub epoch: u64,
    pub is_leased: bool,
    pub run: RunState<O>,
}

/// Applies a transition to a run, `None` for one that does not exist yet.
pub fn transition<O: Clone + PartialEq>(
    turns: &Turns,
    run: Option<&RunState<O>>,
    change: &Transition<O>,
) -> Result<Next<O>, Refusal> {
    let status = run.map(|run| run.status);
    let next = |epoch, is_leased, run| Ok(Next { epoch, is_leased, run });
    match change {
        Transition::Enqueue { owner, ticket } => match status {
            None | Some(RunStatus::Waiting) => {
                let run = RunState { status: RunStatus::Queued, owner: owner.clone(), ticket: Some(*ticket) };
                next(turns.epoch, turns.is_leased, run)
            }
            Some(_) => Err(Refusal::Moved),
        },
        Transition::Start { owner, if_epoch } => {
            admit_start(turns, run, owner)?;
            if if_epoch.is_some_and(|epoch| epoch != turns.epoch) {
                return Err(Refusal::Fenced);
            }
            let run = RunState { status: RunStatus::Running, owner: owner.clone(), ticket: None };
            next(turns.epoch + 1, true, run)
        }
        Transition::Finish { epoch, to } => {
            fence(turns, *epoch)?;
            let run = run.filter(|run| run.status == RunStatus::Running).ok_or(Refusal::Moved)?;
            if !(to.is_terminal() || *to == RunStatus::Waiting) {
                return Err(Refusal::Moved);
            }
            next(turns.epoch + 1, false, RunState { status: *to, ..run.clone() })
        }
        Transition::TakeOver { from, owner } => {
            let run = run.filter(|run| run.status.is_owned() && run.owner == *from).ok_or(Refusal::Moved)?;
            let fences = u64::from(run.status == RunStatus::Running);
            next(turns.epoch + fences, turns.is_leased, RunState { owner: owner.clone(), ..run.clone() })
        }
        Transition::Withdraw { owner, to } => {
            let own = |run: &&RunState<O>| run.status == RunStatus::Queued && run.owner == *owner;
            let run = run.filter(own).ok_or(Refusal::Moved)?;
            if !matches!(to, RunStatus::Cancelled | RunStatus::Failed) {
                return Err(Refusal::Moved);
            }
            next(turns.epoch, turns.is_leased, RunState { status: *to, ticket: None, ..run.clone() })
        }
        Transition::Supersede => {
            let open = |run: &&RunState<O>| matches!(run.status, RunStatus::Waiting | RunStatus::Queued);
            let run = run.filter(open).ok_or(Refusal::Moved)?;
            let run = RunState { status: RunStatus::Cancelled, ticket: None, ..run.clone() };
            next(turns.epoch, turns.is_leased, run)
        }
        Transition::Cancel => {
            let run = run.filter(|run| run.status == RunStatus::Waiting).ok_or(Refusal::Moved)?;
            if turns.is_leased {
                return Err(Refusal::Busy);
            }
            next(turns.epoch + 1, false, RunState { status: RunStatus::Cancelled, ..run.clone() })
        }
    }
}

/// Admits a commit of the turn that acquired this epoch, and of no other: releasing a lease changes the epoch too.
pub fn fence(turns: &Turns, epoch: u64) -> Result<(), Refusal> {
    if turns.epoch == epoch { Ok(()) } else { Err(Refusal::Fenced) }
}

fn admit_start<O: PartialEq>(turns: &Turns, run: Option<&RunState<O>>, owner: &O) -> Result<(), Refusal> {
    let ticket = match run {
        None => None,
        Some(run) if run.status == RunStatus::Waiting => None,
        Some(run) if run.status == RunStatus::Queued && run.owner == *owner => run.ticket,
        Some(_) => return Err(Refusal::Moved),
    };
    if turns.is_leased || turns.first_ticket.is_some_and(|first| Some(first) != ticket) {
        return Err(Refusal::Busy);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
