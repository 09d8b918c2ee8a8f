//! The port to the agents that the server runs.

use bridge::Agent;
use std::{fmt, sync::Arc};

/// An agent under the name that clients use for it.
#[derive(Clone, Debug)]
pub struct ServedApp {
    pub name: String,
    pub agent: Agent,
    /// The model of the root agent, as `provider/model`.
    pub model: String,
}

/// Why an app cannot be served. The messages are for clients.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AppLookupError {
    #[error("{0}")]
    NotFound(String),
    /// The app exists, but its configuration is invalid.
    #[error("{0}")]
    Broken(String),
}

/// Finds apps by name. Both methods may block while they read configuration files.
pub trait AppRegistry: Send + Sync {
    /// The names of all apps in order, including broken ones.
    fn names(&self) -> Vec<String>;
    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError>;
}

impl fmt::Debug for dyn AppRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppRegistry").finish_non_exhaustive()
    }
}
