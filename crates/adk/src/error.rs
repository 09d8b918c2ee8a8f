//! Errors that end a run, and errors of tool calls, which only the model sees.

use crate::{
    notes::{AGENT_NOT_FOUND, INTERRUPTED_CALL},
    session::SessionKey,
};
use failpoint::InjectedFault;
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error that a run ended with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Clients match this text (spec G1).
    #[error("{AGENT_NOT_FOUND}{name}")]
    AgentNotFound {
        name: String,
        /// The agents that the model could have transferred to.
        valid: Vec<String>,
    },
    #[error("the agents transfer the conversation in a loop: {}", path.join(" → "))]
    TransferLoop { path: Vec<String> },
    #[error("limit of {limit} model calls reached")]
    TooManyModelCalls { limit: u32 },
    #[error("limit of {limit} tool calls reached")]
    TooManyToolCalls { limit: u32 },
    #[error("time limit of {limit:?} reached")]
    OutOfTime { limit: Duration },
    #[error("limit of {limit} tokens reached")]
    OutOfTokens { limit: u64 },
    #[error("cost limit of {limit} reached")]
    OutOfMoney { limit: f64 },
    #[error("{tool} was called {times} times with the same arguments and the same result")]
    NothingNew { tool: String, times: u32 },
    #[error("there is no session {0}")]
    SessionNotFound(SessionKey),
    /// ADK's text.
    #[error("User message cannot contain function calls.")]
    CallInMessage,
    /// The message names a resource or prompt that cannot be added to it. Nothing is stored.
    #[error("the message was not sent: {reason}")]
    UnresolvedReference { reason: String },
    #[error("no call with the id {id} in this session waits for a response")]
    UnknownCall { id: String },
    #[error(
        "the instruction of {agent} uses {{{key}}}, which is not in the session's state; set it, or write {{{key}?}}"
    )]
    MissingKey { agent: String, key: String },
    #[error("the run was cancelled")]
    Cancelled,
    #[error(transparent)]
    Model(#[from] LlmError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The retry failed, too; the source is the first error (spec G3).
    #[error("{retry}")]
    RetryFailed {
        retry: Box<RunError>,
        #[source]
        first: Box<RunError>,
    },
}

impl RunError {
    /// ADK's `errorCode` of the error event; `None` for errors that are not logged.
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
            Self::AgentNotFound { .. } => Some("AGENT_NOT_FOUND"),
            Self::TransferLoop { .. } => Some("TRANSFER_LOOP"),
            Self::SessionNotFound(_)
            | Self::CallInMessage
            | Self::UnresolvedReference { .. }
            | Self::UnknownCall { .. }
            | Self::Cancelled
            | Self::Service(_)
            | Self::RetryFailed { .. } => None,
        }
    }
}

impl From<InjectedFault> for RunError {
    fn from(fault: InjectedFault) -> Self {
        Self::Model(fault.into())
    }
}

/// A failed model call.
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

impl From<InjectedFault> for LlmError {
    fn from(fault: InjectedFault) -> Self {
        Self { source: Some(fault.into()), ..Self::new("INJECTED", fault.to_string()) }
    }
}

/// An error of the session or artifact service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    #[error("session {0} exists already")]
    Exists(SessionKey),
    #[error("user {user} has the maximum of {quota} sessions; delete sessions to create new ones")]
    QuotaReached { user: String, quota: u64 },
    #[error("session {0} was modified concurrently")]
    Stale(SessionKey),
    #[error("an event of session {key} cannot be stored: {message}")]
    Invalid { key: SessionKey, message: String },
    /// Rows of the session do not parse.
    #[error("session {} is damaged: restore a copy of the database, or delete the session; other sessions are not affected", key.session_id)]
    Damaged {
        key: SessionKey,
        #[source]
        source: BoxError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A failure of the store. Its text contains no paths or other details of the machine; the cause may.
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

/// The kind of a store failure; the text says how to recover.
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
    #[error("the database of the sessions cannot be reached; try again in a moment")]
    Unreachable,
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
        "a file beside the database of the sessions was deleted or replaced; restart lango, which loses no data"
    )]
    Detached,
    #[error("the store of the sessions is closed; the program is ending")]
    Closed,
    #[error("the store of the sessions failed; the log has the cause")]
    Other,
}

impl StoreFault {
    /// The machine-readable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::ReadOnly => "read_only",
            Self::Locked => "locked",
            Self::Overloaded => "overloaded",
            Self::Unreachable => "unreachable",
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

impl From<InjectedFault> for ServiceError {
    fn from(fault: InjectedFault) -> Self {
        let kind = if fault.is_disk_full() { StoreFault::DiskFull } else { StoreFault::Io };
        StoreError::new(kind, fault).into()
    }
}

/// A failed tool call. The error becomes the response to the call, and the run continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    #[error("there is no tool named {name}; the tools are: {known}")]
    Unknown { name: String, known: String },
    #[error("the arguments do not match the tool's schema: {0}")]
    Arguments(String),
    #[error(
        "the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: {0}"
    )]
    NotJson(String),
    #[error("the tool panicked during the call")]
    Panicked,
    #[error("{INTERRUPTED_CALL}")]
    Interrupted,
    #[error("the tool did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
}

impl From<InjectedFault> for ToolError {
    fn from(fault: InjectedFault) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// An invalid tree of agents.
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
    #[error("the agent {agent} cannot have a tool named {tool}: the name is reserved by ADK")]
    ReservedTool { agent: String, tool: String },
    #[error("the tool {tool} of the agent {agent} has an invalid schema: {message}")]
    BadSchema { agent: String, tool: String, message: String },
}
