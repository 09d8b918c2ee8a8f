//! The services that a turn offers to the tools it runs.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolsError;

/// The turn, as a tool sees it.
pub trait ToolHost: Send + Sync {
    /// Reads a key of the session state, including changes that this call has made. The prefixes `app:`, `user:` and
    /// `temp:` select the scope.
    fn state(&self, key: &str) -> Option<Value>;

    /// Changes a key of the session state. The change is committed together with the call's result, or not at all.
    fn set_state(&self, key: &str, value: Value);

    /// Saves a file as an artifact of the session and returns its version, counted from 0 for each name.
    fn save_artifact(&self, name: String, file: ArtifactFile) -> BoxFuture<'_, Result<u64, ToolsError>>;

    /// Reports progress: each text continues the one before it. Progress is never stored and may have no reader.
    fn progress(&self, _text: &str) {}

    /// The user on whose behalf the call runs. State that outlives the call is scoped to this user.
    fn owner(&self) -> AppUser;

    /// Resolves when the turn is cancelled, and never otherwise. A tool that started processes must then end them.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// One user of one app: the owner of approval rules and background jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AppUser {
    pub app: String,
    pub user: String,
}

/// A file that a tool produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    pub mime_type: String,
    pub body: ArtifactBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactBody {
    Text(String),
    Bytes(Vec<u8>),
}
