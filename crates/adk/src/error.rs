//! What can end a run, and what only a model is told.

use crate::{flow::settle::INTERRUPTED, session::SessionKey};
use failpoint::Fault;
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A run that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The text is the seeds' contract (spec G1).
    #[error("failed to find agent: {name}")]
    AgentNotFound { name: String },
    #[error("the agents hand the conversation around without doing anything: {}", path.join(" → "))]
    TransferLoop { path: Vec<String> },
    #[error("the run has used its {limit} model calls")]
    TooManyModelCalls { limit: u32 },
    #[error("the run has used its {limit} tool calls")]
    TooManyToolCalls { limit: u32 },
    #[error("the run has used its time of {limit:?}")]
    OutOfTime { limit: Duration },
    #[error("the run has used its {limit} tokens")]
    OutOfTokens { limit: u64 },
    #[error("the run has used its money: {limit}")]
    OutOfMoney { limit: f64 },
    #[error("{tool} was called {times} times with the same arguments, and nothing new came of it")]
    NothingNew { tool: String, times: u32 },
    #[error("there is no session {0}")]
    SessionNotFound(SessionKey),
    #[error("there is no call with the id {id} in this session that an answer could belong to")]
    UnknownCall { id: String },
    #[error(
        "the instruction of {agent} names {{{key}}}, which is not in the session's state; set it, or write {{{key}?}}"
    )]
    MissingKey { agent: String, key: String },
    #[error("the run was cancelled")]
    Cancelled,
    #[error(transparent)]
    Model(#[from] LlmError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A second attempt failed too; the first failure is the cause (spec G3).
    #[error("{retry}")]
    RetryFailed {
        retry: Box<RunError>,
        #[source]
        first: Box<RunError>,
    },
}

impl RunError {
    /// ADK's `errorCode` for a failure that an event in the log tells of; `None` if no event does.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Model(error) => Some(&error.code),
            Self::MissingKey { .. } => Some("MISSING_KEY"),
            Self::TooManyModelCalls { .. } => Some("TOO_MANY_MODEL_CALLS"),
            Self::TooManyToolCalls { .. } => Some("TOO_MANY_TOOL_CALLS"),
            Self::OutOfTime { .. } => Some("OUT_OF_TIME"),
            Self::OutOfTokens { .. } => Some("OUT_OF_TOKENS"),
            Self::OutOfMoney { .. } => Some("OUT_OF_MONEY"),
            Self::NothingNew { .. } => Some("NOTHING_NEW"),
            Self::AgentNotFound { .. }
            | Self::TransferLoop { .. }
            | Self::SessionNotFound(_)
            | Self::UnknownCall { .. }
            | Self::Cancelled
            | Self::Service(_)
            | Self::RetryFailed { .. } => None,
        }
    }
}

impl From<Fault> for RunError {
    fn from(fault: Fault) -> Self {
        Self::Model(fault.into())
    }
}

/// A model call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    /// ADK's `errorCode`.
    pub code: String,
    pub message: String,
    #[source]
    pub source: Option<BoxError>,
}

impl LlmError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), source: None }
    }
}

impl From<Fault> for LlmError {
    fn from(fault: Fault) -> Self {
        Self { source: Some(fault.into()), ..Self::new("INJECTED", fault.to_string()) }
    }
}

/// A session or artifact service that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    #[error("session {0} exists already")]
    Exists(SessionKey),
    #[error("session {0} was changed by somebody else in the meantime")]
    Stale(SessionKey),
    #[error("an event of session {key} cannot be stored: {message}")]
    Invalid { key: SessionKey, message: String },
    /// Rows of this session cannot be read.
    #[error("session {} is damaged: restore a copy of the database, or delete the session; other sessions go on", key.session_id)]
    Damaged {
        key: SessionKey,
        #[source]
        source: BoxError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store that failed. What it prints names nothing of the machine; the cause may.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct StoreError {
    pub fault: StoreFault,
    #[source]
    pub cause: BoxError,
}

impl StoreError {
    pub fn new(fault: StoreFault, cause: impl Into<BoxError>) -> Self {
        Self { fault, cause: cause.into() }
    }
}

/// What is wrong with a store, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    #[error("the disk that holds the sessions is full; make room, then try again")]
    DiskFull,
    #[error(
        "the sessions cannot be written, because their file or disk is read-only; make it writable, then try again"
    )]
    ReadOnly,
    #[error("another program has locked the sessions; try again when it is done")]
    Locked,
    #[error("too many writes are waiting; try again in a moment")]
    Overloaded,
    #[error("the disk that holds the sessions reported an error; try again in a moment")]
    Io,
    #[error("the database of the sessions is damaged; restore a copy of it")]
    Damaged,
    #[error(
        "the database of the sessions was deleted while it was in use; put it back, or restart to begin an empty one"
    )]
    Deleted,
    #[error("the database of the sessions was replaced while it was in use; restart to use the new one")]
    Replaced,
    #[error(
        "a file beside the database of the sessions was deleted or replaced; restart, which loses nothing"
    )]
    Detached,
    #[error("the store of the sessions is closed; the program is ending")]
    Closed,
    #[error("the store of the sessions failed; the log has the cause")]
    Other,
}

impl StoreFault {
    /// A name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::ReadOnly => "read_only",
            Self::Locked => "locked",
            Self::Overloaded => "overloaded",
            Self::Io => "io_error",
            Self::Damaged => "damaged",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
            Self::Detached => "detached",
            Self::Closed => "closed",
            Self::Other => "store_failed",
        }
    }
}

impl From<Fault> for ServiceError {
    fn from(fault: Fault) -> Self {
        let kind = if fault.is_disk_full() { StoreFault::DiskFull } else { StoreFault::Io };
        StoreError::new(kind, fault).into()
    }
}

/// A tool call that failed. The model is told; the run goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    #[error("there is no tool named {name}; the tools are: {known}")]
    Unknown { name: String, known: String },
    #[error("the arguments do not fit the tool's schema: {0}")]
    Arguments(String),
    #[error(
        "the arguments are not a JSON object, so the tool was not run; write them again as one. They were: {0}"
    )]
    NotJson(String),
    #[error("the tool stopped working in the middle of the call (it panicked)")]
    Panicked,
    #[error("{INTERRUPTED}")]
    Interrupted,
    #[error("the tool did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
}

impl From<Fault> for ToolError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// Agents that cannot be put together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeError {
    #[error("two agents are named {0}; names must be unique in the whole tree")]
    DuplicateAgent(String),
    #[error(
        "{0:?} cannot be an agent's name: use letters, digits and underscores, not beginning with a digit, and not \"user\""
    )]
    BadName(String),
    #[error("the agent {agent} has two tools named {tool}")]
    DuplicateTool { agent: String, tool: String },
    #[error("the agent {agent} cannot have a tool named {tool}: the name belongs to ADK")]
    ReservedTool { agent: String, tool: String },
    #[error("the tool {tool} of the agent {agent} has a schema that cannot be used: {message}")]
    BadSchema { agent: String, tool: String, message: String },
}
