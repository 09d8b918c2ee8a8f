//! The tool port: a trait with a description of the tool and a function that runs one call.

use std::{fmt, path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{InputQuestion, InputReply, ToolHost, ToolsError};

/// A function that a model may call. Calls of one turn run in parallel; a tool that needs an order must keep it itself.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &Spec;

    /// Runs one call. Dropping the future cancels the call, and the tool must release whatever it started.
    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>>;

    /// The text that a person reads before approving the call, such as a diff or a command. It has no side effects.
    fn preview(&self, _args: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The path of the file that the call would change, if it changes one.
    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let path = args.get("path").and_then(Value::as_str).map(str::to_owned);
        path.filter(|_| self.spec().safety == Safety::Write)
    }

    /// Why a person must review the tool itself before it runs, whatever the rules allow. Running a call counts as approval.
    fn review_reason(&self) -> Option<String> {
        None
    }
}

/// The description of a tool, for the model and for the approval policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Unique in its [`ToolRegistry`](crate::ToolRegistry), and valid for every provider.
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub parameters: Value,
    pub safety: Safety,
    pub effect: Effect,
    /// The call may return before the work is done: see [`ToolReply::Pending`].
    pub long_running: bool,
    /// Each call needs a person's confirmation.
    pub confirm: bool,
    /// Results hold untrusted text, which may be a prompt injection. Once one is in the conversation, calls with side
    /// effects require approval again.
    pub untrusted: bool,
}

impl Spec {
    /// A tool that changes nothing: by default it runs without approval, and again after a crash.
    pub fn read_only(name: &str, description: &str, parameters: Value) -> Self {
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

    /// A tool with side effects or network access.
    pub fn new(name: &str, description: &str, parameters: Value, safety: Safety, effect: Effect) -> Self {
        Self { safety, effect, ..Self::read_only(name, description, parameters) }
    }
}

/// The safety class of a call: what it can affect. The approval policy is defined per class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    #[default]
    Read,
    Write,
    Execute,
    Network,
}

/// The effect of executing the same call again. Recovery after a crash depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    #[default]
    ReadOnly,
    /// Running again with the same [`ToolRequest::id`] has the effect of running once.
    Idempotent,
    /// Never runs again: after a crash the outcome is unknown.
    Once,
}

/// One call. The caller has validated the arguments against [`Spec::parameters`].
#[derive(Clone)]
pub struct ToolRequest {
    /// The idempotency key: the same when the call is repeated after a crash.
    pub id: String,
    pub args: Map<String, Value>,
    pub turn: CallingTurn,
    pub host: Arc<dyn ToolHost>,
    pub sandbox: SandboxAccess,
    /// The user's answer to the question that the call returned.
    pub input: Option<InputReply>,
}

/// The turn that a call belongs to. Its user is [`ToolHost::owner`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallingTurn {
    /// The id of the session.
    pub session: String,
    /// The session, unique among all apps and users.
    pub scope: String,
    /// The id of the run.
    pub run: String,
}

/// What the approval policy lets the processes of a call do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxAccess {
    pub profile: SandboxProfile,
    /// The protected paths that a person granted to this call.
    pub protected: Vec<PathBuf>,
}

/// What a command may do in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxProfile {
    /// Nothing but reading. A command that was classified as read-only by mistake has no effect.
    #[default]
    ReadOnly,
    /// Writing inside the roots, except protected paths.
    Workspace,
}

impl fmt::Display for SandboxProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
        })
    }
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRequest").field("id", &self.id).field("args", &self.args).finish_non_exhaustive()
    }
}

/// The result of a call that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReply {
    Done(Value),
    /// A result that holds untrusted text from this source, although the tool's other results may not.
    Untrusted {
        value: Value,
        source: String,
    },
    /// A long-running tool has started and delivers its result later. The value, if any, is an interim result for the model.
    Pending(Option<Value>),
    /// The call is in progress and needs the user's input. It is repeated with the answer in [`ToolRequest::input`].
    Ask(InputQuestion),
}
