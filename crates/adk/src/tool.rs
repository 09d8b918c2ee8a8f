//! The port to a tool: its declaration, the context of a call, and the outcome.

use crate::{
    content::Part,
    error::{ServiceError, ToolError},
    event::{Event, EventActions, ToolConfirmation},
    input::{InputAnswer, InputRequest},
    model::FunctionDeclaration,
    progress::ProgressBoard,
    session::{ArtifactService, SessionKey},
};
use futures::future::BoxFuture;
use lock::LockExt;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{Arc, Mutex},
};
use tokio_util::sync::CancellationToken;

/// Computes the cost of an event; `None` if unknown.
pub type EventPrice = Arc<dyn Fn(&Event) -> Option<f64> + Send + Sync>;

/// A write-ahead record (intent log) of tool calls: a call is recorded before it runs.
pub trait Ledger: Send + Sync {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>>;
}

pub trait Tool: Send + Sync {
    fn declaration(&self) -> &FunctionDeclaration;

    /// Whether the final result may arrive after a provisional response.
    fn is_long_running(&self) -> bool;

    /// Runs one call. `args` have been validated against the declared schema.
    fn call(
        &self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'_, Result<ToolOutcome, ToolError>>;
}

/// A set of tools that may change while an agent runs.
pub trait Toolset: Send + Sync {
    /// The current tools. Called before each model request.
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>>;
    /// The tools that are known without I/O.
    fn known(&self) -> Vec<Arc<dyn Tool>>;
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    Done(Value),
    /// A long-running call has begun; the provisional response, if any.
    Pending(Option<Value>),
    /// The user must confirm first; the call is repeated with the reply.
    Ask(ToolConfirmation),
    /// The call is in progress and needs the user's input; it is repeated with the answer.
    AskInput(InputRequest),
}

/// The context of a tool call: identifiers, state, artifacts, cancellation.
#[derive(Clone)]
pub struct ToolContext {
    pub call_id: String,
    pub agent: String,
    pub invocation_id: String,
    pub session: SessionKey,
    /// The user's reply, if this call required a confirmation.
    pub confirmation: Option<ToolConfirmation>,
    /// The user's answer to the last question that this call asked.
    pub input: Option<InputAnswer>,
    /// Whether the call had begun before a crash: it may have taken effect already.
    pub begun: bool,
    pub cancel: CancellationToken,
    /// The tool's name in the call.
    pub(crate) tool: String,
    pub(crate) progress: Arc<ProgressBoard>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    pub(crate) state: Arc<Map<String, Value>>,
    pub(crate) artifacts: Arc<dyn ArtifactService>,
    pub(crate) actions: Arc<Mutex<EventActions>>,
}

impl ToolContext {
    /// A state value as this call sees it, its own changes included.
    pub fn state(&self, key: &str) -> Option<Value> {
        let actions = self.actions.locked();
        actions.state_delta.get(key).or_else(|| self.state.get(key)).cloned()
    }

    /// The state values whose keys begin with `prefix`, as this call sees them.
    pub fn state_with_prefix(&self, prefix: &str) -> Vec<Value> {
        let actions = self.actions.locked();
        let unchanged = self.state.iter().filter(|(key, _)| !actions.state_delta.contains_key(*key));
        let all = unchanged.chain(&actions.state_delta);
        all.filter(|(key, _)| key.starts_with(prefix)).map(|(_, value)| value.clone()).collect()
    }

    /// Changes the state; committed with the call's response.
    pub fn set_state(&self, key: impl Into<String>, value: Value) {
        let mut actions = self.actions.locked();
        actions.state_delta.insert(key.into(), value);
    }

    /// Appends to the progress text of the call. Never blocks.
    pub fn report_progress(&self, text: &str) {
        self.progress.push(&self.call_id, &self.tool, text);
    }

    /// Records in the ledger that the call begins. After a crash, a begun call without a response has an unknown outcome.
    pub async fn begin(&self) -> Result<(), ServiceError> {
        match &self.ledger {
            Some(ledger) => ledger.begin(&self.session, &self.call_id).await,
            None => Ok(()),
        }
    }

    pub async fn save_artifact(&self, name: &str, part: Part) -> Result<u64, ServiceError> {
        let version = self.artifacts.save(&self.session, name, part).await?;
        let mut actions = self.actions.locked();
        actions.artifact_delta.insert(name.to_owned(), Value::from(version));
        Ok(version)
    }

    pub(crate) fn take_actions(&self) -> EventActions {
        std::mem::take(&mut *self.actions.locked())
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}
