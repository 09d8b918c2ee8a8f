//! Sessions, and the one way in which they change.

use crate::{Draft, Fact, FactChange, Lease, Message, NewRun, Pending, RunStatus, Seq, SessionKey, Stored};
use serde_json::Value;

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
    pub steps: Vec<Commit>,
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
    /// Only in lists: the row cannot be read, and everything but the key may be wrong. Using the session is
    /// [`Error::DamagedSession`](crate::Error::DamagedSession).
    pub is_damaged: bool,
}

impl SessionRow {
    /// A session of which only the key is known.
    pub(crate) fn damaged(key: SessionKey) -> Self {
        let last_seq = Seq::START;
        Self {
            key,
            title: None,
            last_seq,
            total_tokens: 0,
            created_at: 0.0,
            updated_at: 0.0,
            is_damaged: true,
        }
    }
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
    /// Text that a process showed before it died, and that is not in the log.
    pub draft: Option<Draft>,
}

/// What a commit does to the run that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnChange {
    /// The commit belongs to no turn, and is admitted whoever holds the lease.
    #[default]
    None,
    /// The first commit of a turn: the run starts and acquires the lease.
    Start(Start),
    /// One more commit of a turn. [`Error::Fenced`](crate::Error::Fenced) if the lease was lost.
    Step(Lease),
    /// The last commit of a turn: the run leaves `running` and the lease is released.
    Finish { lease: Lease, status: RunStatus, error: Option<String> },
    /// Withdraws what a `waiting` run has asked: it becomes `cancelled`, and the commit's messages are its last ones.
    /// [`Error::Busy`](crate::Error::Busy) while a run holds the lease, [`Error::RunMoved`](crate::Error::RunMoved) if it
    /// is not waiting.
    Cancel { run: String, error: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub run: NewRun,
    /// For a caller that has the session in memory as the turn of this epoch left it, and has read nothing:
    /// [`Error::Fenced`](crate::Error::Fenced) if there was another turn since, or if this is another session of that name.
    pub if_epoch: Option<u64>,
    /// Runs whose questions this message settles: they become `cancelled`.
    pub supersedes: Vec<String>,
    /// Opaque JSON text of the caller: what another owner needs, besides the log, to continue the run as it was started.
    /// Stored as long as the run is `running`.
    pub options: Option<String>,
}

/// What a commit that started a run returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    pub lease: Lease,
    /// The state of the app and of the user, with what this commit changed in it, if [`Start::if_epoch`] was set: other
    /// sessions may have changed it since.
    pub shared: Vec<StateChange>,
}

/// One step of a session: all of it is stored, or nothing.
///
/// A commit whose last message is in the log already is answered as [`repeated`](Committed::repeated) before anything else
/// is checked: its first attempt made its conditions untrue.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Appended in this order. A commit without messages takes a sequence number only if it changes state.
    pub messages: Vec<Message>,
    /// Logged at the last sequence number of the commit.
    pub state: Vec<StateChange>,
    pub facts: Vec<FactChange>,
    pub turn: TurnChange,
    /// Refuses the commit unless the session still ends here.
    pub expected_seq: Option<Seq>,
    /// Set when the session has no title yet.
    pub title: Option<String>,
    /// Discards the session's draft: the log says by now what became of it. A commit that starts a run is refused with
    /// [`Error::Conflict`](crate::Error::Conflict) if the session has a draft and this is not set, so a draft never mixes
    /// the text of two runs.
    pub discards_draft: bool,
}

impl Commit {
    /// A commit of one message that belongs to no turn.
    pub fn message(message: Message) -> Self {
        Self { messages: vec![message], ..Self::default() }
    }

    pub(crate) fn places(&self) -> u64 {
        let messages = self.messages.len() as u64;
        if messages == 0 { u64::from(!self.state.is_empty()) } else { messages }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The last place that the commit took; the session's last place if it took none.
    pub seq: Seq,
    /// The messages were there already: nothing was stored again.
    pub repeated: bool,
    /// Set if the commit started a run.
    pub started: Option<Started>,
    /// The epoch of the session after the commit.
    pub epoch: u64,
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
    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed>;

    /// A session whose row cannot be read is listed as [damaged](SessionRow::is_damaged) and does not hide the others.
    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>>;

    /// Removes a session with all that is its own. `false` if there was none.
    fn delete(&self, key: &SessionKey) -> Pending<'_, bool>;
}
