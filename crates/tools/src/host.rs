//! What a tool may ask of the turn it runs in.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// The turn, as a tool sees it.
pub trait Host: Send + Sync {
    /// A value of the session's state, this call's own changes included. The prefixes `app:`, `user:` and `temp:` name the scope.
    fn state(&self, key: &str) -> Option<Value>;

    /// A change that is stored together with the call's result, or not at all.
    fn set_state(&self, key: &str, value: Value);

    /// Keeps a file beside the session, and says which version of that name it became, counted from 0.
    fn save_artifact(&self, name: String, file: File) -> BoxFuture<'_, Result<u64, Error>>;

    /// Tells whoever watches how far the call is; what is told goes on where it ended before. Nobody may be watching,
    /// and nothing of it is stored.
    fn progress(&self, _text: &str) {}

    /// For whom it runs. What outlives the call is nobody else's.
    fn owner(&self) -> Owner;

    /// Resolves when the turn is stopped, and never otherwise. A tool that starts processes ends them then.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// Whose rules or jobs are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub app: String,
    pub user: String,
}

/// A file that a tool made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub mime_type: String,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Text(String),
    Bytes(Vec<u8>),
}
