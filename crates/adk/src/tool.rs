//! The port to a tool: what it is called, what it takes, and what may become of a call.

use crate::{
    content::Part,
    error::{ServiceError, ToolError},
    event::{Event, EventActions, ToolConfirmation},
    model::FunctionDeclaration,
    progress::ProgressBoard,
    session::{ArtifactService, SessionKey},
};
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// What an event cost, if anybody knows.
pub type EventPrice = Arc<dyn Fn(&Event) -> Option<f64> + Send + Sync>;

/// Where it is written down that a call begins, before it does.
pub trait Ledger: Send + Sync {
    fn begin(&self, session: &SessionKey, call_id: &str) -> BoxFuture<'_, Result<(), ServiceError>>;
}

pub trait Tool: Send + Sync {
    fn declaration(&self) -> &FunctionDeclaration;

    /// Whether its result may come long after the call was answered for the first time.
    fn is_long_running(&self) -> bool;

    /// Runs one call. The arguments have been checked against the declared schema.
    fn call(
        &self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'_, Result<ToolOutcome, ToolError>>;
}

/// Tools that come and go while an agent runs.
pub trait Toolset: Send + Sync {
    /// What there is now. It is asked before each request to a model.
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>>;
    /// What is known without waiting for anybody.
    fn known(&self) -> Vec<Arc<dyn Tool>>;
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    Done(Value),
    /// A long-running call has begun; what there is to say so far.
    Pending(Option<Value>),
    /// A person must be asked first; the call will be made again with the answer.
    Ask(ToolConfirmation),
}

/// What a tool may know of, and do to, the turn that it runs in.
#[derive(Clone)]
pub struct ToolContext {
    pub call_id: String,
    pub agent: String,
    pub invocation_id: String,
    pub session: SessionKey,
    /// The answer of the person who was asked about this call.
    pub confirmation: Option<ToolConfirmation>,
    /// It had begun before the program was cut off: it may have taken effect already.
    pub begun: bool,
    pub cancel: CancellationToken,
    /// The name that it was called by.
    pub(crate) tool: String,
    pub(crate) progress: Arc<ProgressBoard>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    pub(crate) state: Arc<Map<String, Value>>,
    pub(crate) artifacts: Arc<dyn ArtifactService>,
    pub(crate) actions: Arc<Mutex<EventActions>>,
}

impl ToolContext {
    /// A value of the state as this call sees it: its own changes first.
    pub fn state(&self, key: &str) -> Option<Value> {
        let actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.state_delta.get(key).or_else(|| self.state.get(key)).cloned()
    }

    /// Changes the state when the call's answer is stored.
    pub fn set_state(&self, key: impl Into<String>, value: Value) {
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.state_delta.insert(key.into(), value);
    }

    /// Tells whoever looks on how far the call is: what is told goes on where it ended before. It waits for nobody.
    pub fn report_progress(&self, text: &str) {
        self.progress.say(&self.call_id, &self.tool, text);
    }

    /// Writes down that the call begins. What has begun and has no answer after a crash may have taken effect.
    pub async fn begin(&self) -> Result<(), ServiceError> {
        match &self.ledger {
            Some(ledger) => ledger.begin(&self.session, &self.call_id).await,
            None => Ok(()),
        }
    }

    pub async fn save_artifact(&self, name: &str, part: Part) -> Result<u64, ServiceError> {
        let version = self.artifacts.save(&self.session, name, part).await?;
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.artifact_delta.insert(name.to_owned(), Value::from(version));
        Ok(version)
    }

    pub(crate) fn take_actions(&self) -> EventActions {
        std::mem::take(&mut *self.actions.lock().unwrap_or_else(PoisonError::into_inner))
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
