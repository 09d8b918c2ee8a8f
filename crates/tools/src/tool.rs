//! The port: a tool says what it is, and answers one call at a time.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Host};

/// Something a model may call. Calls of one turn run in parallel, so a tool keeps its own order if it needs one.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &Spec;

    /// Runs one call. Dropping the future abandons it: what must be undone then is the tool's to undo.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>>;

    /// What a person is shown before deciding on the call: the diff, the command. It changes nothing.
    fn preview(&self, _args: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The file that the call would change, if it changes one.
    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let path = args.get("path").and_then(Value::as_str).map(str::to_owned);
        path.filter(|_| self.spec().safety == Safety::Write)
    }

    /// Why a person must be asked about the tool itself, whatever rules say. A call that runs all the same was allowed.
    fn doubt(&self) -> Option<String> {
        None
    }
}

/// What a tool says of itself, to the model and to those who decide whether it may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Unique in its [`Registry`](crate::Registry), and legal for every provider.
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub parameters: Value,
    pub safety: Safety,
    pub effect: Effect,
    /// The call may be answered before the work is done: see [`Outcome::Pending`].
    pub long_running: bool,
    /// A person confirms each call before it runs.
    pub confirm: bool,
    /// What it answers was written by strangers: after it, calls that act ask again.
    pub untrusted: bool,
}

impl Spec {
    /// A tool that looks and changes nothing: it may run unasked, and again after a crash.
    pub fn reading(name: &str, description: &str, parameters: Value) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            safety: Safety::Read,
            effect: Effect::ReadOnly,
            long_running: false,
            confirm: false,
            untrusted: false,
        }
    }

    /// A tool that a person may want to be asked about.
    pub fn acting(name: &str, description: &str, parameters: Value, safety: Safety, effect: Effect) -> Self {
        Self { safety, effect, ..Self::reading(name, description, parameters) }
    }
}

/// What a call can touch. Approval is decided by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    #[default]
    Read,
    Write,
    Execute,
    Network,
}

/// What a second run of the same call does. Recovery after a crash is decided by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    #[default]
    ReadOnly,
    /// Runs again with the same [`Call::id`] and leaves the world as one run would.
    Idempotent,
    /// Never runs again: after a crash its outcome is unknown.
    Once,
}

/// One call, its arguments already checked against [`Spec::parameters`] by the caller.
#[derive(Clone)]
pub struct Call {
    /// The key of an idempotent call: the same after a crash.
    pub id: String,
    pub args: Map<String, Value>,
    pub host: Arc<dyn Host>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("id", &self.id).field("args", &self.args).finish_non_exhaustive()
    }
}

/// How a call that did not fail ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done(Value),
    /// A long-running tool has started and will answer later; the value, if any, is what the model is told meanwhile.
    Pending(Option<Value>),
}
