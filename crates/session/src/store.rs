//! Sessions, and the commits that change them.

use crate::{
    Draft, Lease, NewRecipe, NewRun, Pending, PendingEntry, PendingEntryChange, RunStatus, Seq, SessionKey,
    SessionMessage, StoredMessage, UsageEntry,
};
use serde_json::Value;

/// The scope of a state key, from the widest to the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Shared by all users of the app. Not deleted with a session.
    App,
    /// Shared by all sessions of the user. Not deleted with a session.
    User,
    Session,
}

/// Assigns a value to a state key. Keys are never deleted: `null` is a value, as in ADK.
#[derive(Clone, Debug, PartialEq)]
pub struct StateChange {
    pub scope: Scope,
    /// The key without the prefix of its scope.
    pub key: String,
    pub value: Value,
}

/// The behaviour of [`SessionStore::create`] for an existing session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Fails with [`Error::Exists`](crate::Error::Exists).
    Fail,
    /// Returns the existing session unchanged.
    Keep,
}

#[derive(Clone, Debug)]
pub struct NewSession {
    pub key: SessionKey,
    /// The initial state. If it is not empty, it takes the first sequence number and is part of the state log.
    pub state: Vec<StateChange>,
    /// Commits to apply to the new session, oldest first. If one of them fails, neither the session nor any change is stored.
    pub steps: Vec<Commit>,
    pub on_conflict: OnConflict,
    /// The maximum number of sessions of the user in all apps, this one included. Fails with
    /// [`Error::QuotaReached`](crate::Error::QuotaReached) above it; `None` for no limit. An existing session is not affected.
    pub quota: Option<u64>,
}

/// A session without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub key: SessionKey,
    /// Identifies the session together with its key, and grows with each session that is created.
    pub number: u64,
    pub title: Option<String>,
    pub last_seq: Seq,
    pub total_tokens: u64,
    pub created_at: f64,
    pub updated_at: f64,
    /// Set only in lists: the row cannot be read, and all fields but the key may be wrong. Any other call for this session fails
    /// with [`Error::DamagedSession`](crate::Error::DamagedSession).
    pub is_damaged: bool,
}

impl SessionRow {
    /// The cursor after the session with this number, in a list in the order of creation.
    pub fn cursor(key: SessionKey, number: u64) -> Self {
        Self { is_damaged: false, ..Self::damaged(key, number) }
    }

    /// The row of a damaged session: only the key is known.
    pub(crate) fn damaged(key: SessionKey, number: u64) -> Self {
        let last_seq = Seq::START;
        Self {
            key,
            number,
            title: None,
            last_seq,
            total_tokens: 0,
            created_at: 0.0,
            updated_at: 0.0,
            is_damaged: true,
        }
    }
}

/// How many rows to read from the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailBudget {
    /// Maximum sum of the rows' tokens, from the newest row backwards. The newest row is always included.
    pub tokens: u64,
    /// Maximum number of rows.
    pub rows: usize,
}

impl TailBudget {
    /// No messages, only state and pending work.
    pub const NONE: Self = Self { tokens: 0, rows: 0 };
    pub const ALL: Self = Self { tokens: u64::MAX, rows: usize::MAX };
}

/// One consistent read of a session, as a turn needs it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub row: SessionRow,
    /// The newest rows of the log, oldest first.
    pub tail: Vec<StoredMessage>,
    /// Whether the budget excluded older rows.
    pub truncated: bool,
    /// The state of all scopes, ordered by scope and then by the first assignment of the key.
    pub state: Vec<StateChange>,
    /// The carried entries of the pending work, ordered by kind and id.
    pub pending: Vec<PendingEntry>,
    /// Streamed text of an interrupted run that is not in the log.
    pub draft: Option<Draft>,
}

/// The effect of a commit on its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnChange {
    /// The commit belongs to no turn. The lease is not checked.
    #[default]
    None,
    /// The first commit of a turn: starts the run and acquires the lease.
    Start(Start),
    /// A further commit of a turn. [`Error::Fenced`](crate::Error::Fenced) if the lease was lost.
    Step(Lease),
    /// The last commit of a turn: the run leaves `running` and the lease is released.
    Finish { lease: Lease, status: RunStatus, error: Option<String> },
    /// Cancels a `waiting` run and its question. The messages of the commit are its last ones.
    /// [`Error::Busy`](crate::Error::Busy) while a run holds the lease, [`Error::RunMoved`](crate::Error::RunMoved) if the run
    /// is not waiting.
    Cancel { run: String, error: Option<String> },
}

/// The start of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub run: NewRun,
    /// The epoch of the caller's cached copy of the session. [`Error::Fenced`](crate::Error::Fenced) if the session has another
    /// epoch: another turn ran since, or the session was deleted and recreated.
    pub if_epoch: Option<u64>,
    /// Waiting runs whose questions this message supersedes: they become `cancelled`.
    pub supersedes: Vec<String>,
    /// Messages of the commit that belong to earlier runs: they settle what those runs left open.
    pub settled: Vec<SettledMessage>,
    /// Opaque JSON text of the caller, for an owner that takes the run over. Stored while the run is `running`.
    pub options: Option<String>,
}

/// A message that settles what an earlier run left open. Readers of that run receive it, those of the started run do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledMessage {
    pub id: String,
    /// The run that it belongs to; `None` if that is unknown.
    pub run: Option<String>,
}

/// The lease of a started run.
#[derive(Clone, Debug, PartialEq)]
pub struct StartedTurn {
    pub lease: Lease,
    /// The app and user state after this commit, if [`Start::if_epoch`] was set: other sessions may have changed it since the
    /// caller cached it. Empty otherwise.
    pub shared: Vec<StateChange>,
}

/// An atomic change of a session.
///
/// Commits are idempotent by their last message: if the same message, with the same id and content, is in the log already, the
/// commit returns [`repeated`](Committed::repeated) and no other condition is checked, because the first attempt may have
/// invalidated it. A message that only shares the id was stored by another owner, and does not make the commit a retry.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Appended in this order, with consecutive sequence numbers. A commit without messages takes one only if it changes state.
    pub messages: Vec<SessionMessage>,
    /// Logged at the last sequence number of the commit.
    pub state: Vec<StateChange>,
    pub pending: Vec<PendingEntryChange>,
    pub turn: TurnChange,
    /// Fails with [`Error::Conflict`](crate::Error::Conflict) unless this is the last sequence number of the session.
    pub expected_seq: Option<Seq>,
    /// The title of the session, if it has none yet.
    pub title: Option<String>,
    /// Deletes the session's draft: its text is in the log now. A commit that starts a run fails with
    /// [`Error::Conflict`](crate::Error::Conflict) if the session has a draft and this is not set, so a draft never contains
    /// text of two runs.
    pub discards_draft: bool,
    /// Stored with one of the messages.
    pub recipe: Option<NewRecipe>,
    /// The usage of the model calls that the messages answer.
    pub usage: Vec<UsageEntry>,
}

impl Commit {
    /// A commit of one message that belongs to no turn.
    pub fn message(message: SessionMessage) -> Self {
        Self { messages: vec![message], ..Self::default() }
    }

    /// How many sequence numbers the commit takes.
    pub(crate) fn sequence_numbers(&self) -> u64 {
        let messages = self.messages.len() as u64;
        if messages == 0 { u64::from(!self.state.is_empty()) } else { messages }
    }
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The last sequence number of the commit, or of the session if the commit took none.
    pub seq: Seq,
    /// The last message was in the log already: nothing was stored.
    pub repeated: bool,
    /// Set if the commit started a run.
    pub started: Option<StartedTurn>,
    /// The epoch of the session after the commit.
    pub epoch: u64,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// By the last change, newest first. A session that changes between two pages moves to the front, which was already read: no
    /// session is listed twice, and every unchanged session is listed once.
    #[default]
    Changed,
    /// By creation, newest first. Every session that exists throughout is listed once, whatever happens between two pages.
    Created,
}

/// A page of sessions.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only sessions of this app.
    pub app: Option<String>,
    /// Only sessions of this user.
    pub user: Option<String>,
    /// Only sessions with this id.
    pub session: Option<String>,
    pub order: ListOrder,
    /// The cursor: the last row of the previous page. Its key, number and time of change are used.
    pub after: Option<SessionRow>,
    pub limit: usize,
}

pub trait SessionStore: Send + Sync {
    fn create(&self, new: NewSession) -> Pending<'_, SessionRow>;

    /// Reads the tail, the state and the pending work of a session. `None` if the session does not exist.
    fn load(&self, key: &SessionKey, tail: TailBudget) -> Pending<'_, Option<Snapshot>>;

    /// Returns after the commit is durable.
    fn commit(&self, key: &SessionKey, commit: Commit) -> Pending<'_, Committed>;

    /// A session whose row cannot be read is listed as [damaged](SessionRow::is_damaged).
    fn list(&self, query: ListQuery) -> Pending<'_, Vec<SessionRow>>;

    /// Deletes a session with its log, runs, draft and artifacts. Returns `false` if it does not exist.
    ///
    /// It disappears with this commit, and its name is free. [`Purge`](crate::Purge) deletes the rows.
    fn delete(&self, key: &SessionKey) -> Pending<'_, bool>;
}
