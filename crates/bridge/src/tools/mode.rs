//! The approval mode of an app, and that of a single session on a server.

use adk::tool::ToolContext;
use lock::LockExt;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};
use tools::policy::ApprovalMode;

use super::guard::UNTRUSTED;

/// State key of the mode that an administrator set for one session of a server.
pub const SESSION_MODE: &str = "lango:mode";

/// The current mode, shared by the guard and the front end that changes it.
#[derive(Clone, Debug, Default)]
pub struct ModeSwitch {
    mode: Arc<Mutex<ApprovalMode>>,
    /// Whether the mode of a session takes precedence.
    per_session: bool,
}

impl ModeSwitch {
    pub fn new(mode: ApprovalMode) -> Self {
        Self { mode: Arc::new(Mutex::new(mode)), per_session: false }
    }

    /// On a server, administrators set the mode of single sessions.
    pub fn per_session(self) -> Self {
        Self { per_session: true, ..self }
    }

    pub fn get(&self) -> ApprovalMode {
        *self.mode.locked()
    }

    pub fn set(&self, mode: ApprovalMode) {
        *self.mode.locked() = mode;
    }

    pub(crate) fn of_session(&self, context: &ToolContext) -> ApprovalMode {
        let of_session = || {
            let value = context.state(SESSION_MODE)?;
            value.as_str()?.parse().ok()
        };
        let of_session: Option<ApprovalMode> = if self.per_session { of_session() } else { None };
        of_session.unwrap_or_else(|| self.get())
    }
}

/// The change of state by which an administrator sets the mode of a session, or with `null` returns to that of the server.
pub fn session_delta(value: &Value) -> Result<Map<String, Value>, String> {
    let mut delta = match value {
        Value::Null => Map::new(),
        Value::String(name) => state_delta(name.parse()?),
        _ => return Err("the mode must be plan, ask, edits or auto".to_owned()),
    };
    delta.insert(SESSION_MODE.to_owned(), value.clone());
    Ok(delta)
}

/// The change of state by which a person sets a mode. Setting `edits` or `auto` also ends the effect of untrusted text: the
/// person has seen the conversation.
pub fn state_delta(mode: ApprovalMode) -> Map<String, Value> {
    let mut delta = Map::new();
    if mode.is_permissive() {
        delta.insert(UNTRUSTED.to_owned(), Value::Null);
    }
    delta
}
