//! Sessions, and the one way in which they change.

use crate::{Fact, FactChange, Message, NewRun, Pending, RunUpdate, Seq, SessionKey, Stored};
use serde_json::Value;
use std::time::Duration;

/// Whose state a key belongs to. Locks are always taken in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Shared by all users of the app; outlives every session.
    App,
    /// Shared by all sessions of the user; outlives them.
    User,
    Session,
}

/// A state key takes a new value. There is no deletion: `null` is a value, as in ADK.
#[derive(Clone, Debug, PartialEq)]
pub struct StateChange {
    pub scope: Scope,
    /// Without the scope's prefix.
    pub key: String,
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// A session that exists is [`Error::Exists`](crate::Error::Exists).
    Fail,
    /// A session that exists stays as it is and is the answer.
    Keep,
}

#[derive(Clone, Debug)]
pub struct NewSession {
    pub key: SessionKey,
    /// Like any step that changes state, it takes a sequence number if it is not empty: the state log is complete.
    pub state: Vec<StateChange>,
    /// What happened in it elsewhere, oldest first. All of it is stored with the session, or nothing.
    pub steps: Vec<Append>,
    pub on_conflict: OnConflict,
}

/// A session without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub key: SessionKey,
    pub title: Option<String>,
    pub last_seq: Seq,
    pub total_tokens: u64,
    pub created_at: f64,
    pub updated_at: f64,
}

/// How much of a session's end to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailBudget {
    /// Rows are taken from the newest on while the sum of their tokens stays within this; the newest is always taken.
    pub tokens: u64,
    /// And no more than this many rows.
    pub rows: usize,
}

impl TailBudget {
    /// No messages at all: state and facts only.
    pub const NONE: Self = Self { tokens: 0, rows: 0 };
    pub const ALL: Self = Self { tokens: u64::MAX, rows: usize::MAX };
}

/// A session as a turn begins with it: one consistent read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub row: SessionRow,
    /// The end of the log, oldest first.
    pub tail: Vec<Stored>,
    /// Whether older rows exist that the budget left out.
    pub truncated: bool,
    /// The merged state, scope by scope, each sorted by when its key was first set.
    pub state: Vec<StateChange>,
    /// The facts that are carried, by kind and id.
    pub facts: Vec<Fact>,
}

/// A turn that begins with its first step: the lease is taken in the same commit, if nobody has it and nobody waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enter {
    pub owner: String,
    pub ttl: Duration,
    /// For a caller that has the session in memory as the turn of this epoch left it, and has read nothing:
    /// [`Error::Fenced`](crate::Error::Fenced) if there was another turn since, or if this is another session of that name.
    pub follows: Option<u64>,
}

/// What a step that took the lease found.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    pub epoch: u64,
    /// The state of the app and of the user, with what this step changed in it: others may have changed it since the turn
    /// that this one follows. Empty if it follows none.
    pub shared: Vec<StateChange>,
}

/// One step of a session. All of it is stored, or nothing.
///
/// A step whose message is in the log already is answered as [`repeated`](Appended::repeated) before anything else
/// is checked: its first attempt made `expected_seq` and `takes` untrue.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// Absent for a step that changes state or facts only; such a step takes a sequence number all the same
    /// if it changes state.
    pub message: Option<Message>,
    pub state: Vec<StateChange>,
    pub facts: Vec<FactChange>,
    /// Takes the lease with this step. [`Error::Busy`](crate::Error::Busy) unless it is free and the inbox is empty.
    pub enters: Option<Enter>,
    /// Records a run with this step; one that is recorded already gets this status and this owner, and begins only now if it
    /// was queued. With an idempotency key it begins once: [`Error::RunBegun`](crate::Error::RunBegun) if another owner was
    /// first.
    pub starts: Option<NewRun>,
    /// [`Error::NoRun`](crate::Error::NoRun) if the session has no such run.
    pub run: Option<RunUpdate>,
    /// The inbox ticket that this step consumes. [`Error::TicketGone`](crate::Error::TicketGone) if it waits no more.
    pub takes: Option<u64>,
    /// Refuses the step unless the session still ends here.
    pub expected_seq: Option<Seq>,
    /// Refuses the step unless the lease still has this epoch.
    pub epoch: Option<u64>,
    /// Gives that lease back: the turn ends with this step. A repeated step gives nothing back.
    pub release: bool,
    /// Set when the session has no title yet.
    pub title: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The place that the step took; the session's last place if it took none.
    pub seq: Seq,
    /// The message was there already: nothing was stored again.
    pub repeated: bool,
    /// If the step took the lease.
    pub entered: Option<Entered>,
}

/// A page of sessions, newest change first.
///
/// A session that changes while its list is being paged moves to the front, behind the reader: no session comes twice,
/// and every session that did not change meanwhile comes once.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Of this app only.
    pub app: Option<String>,
    /// Of this user only.
    pub user: Option<String>,
    /// Behind this row of the page before.
    pub after: Option<SessionRow>,
    pub limit: usize,
}

pub trait SessionStore: Send + Sync {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow>;

    /// The end of a session with its state and facts, in one consistent read; `None` if there is no such session.
    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>>;

    /// Acknowledged only when it is durable.
    fn append(&self, key: &SessionKey, step: Append) -> Pending<'_, Appended>;

    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>>;

    /// Removes a session with all that is its own. `false` if there was none.
    fn delete(&self, key: &SessionKey) -> Pending<'_, bool>;
}
