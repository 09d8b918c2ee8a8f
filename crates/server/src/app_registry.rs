//! The port to the agents that are served.

use bridge::Agent;
use std::{fmt, sync::Arc};

/// An agent that is ready to take messages, under the name that clients know it by.
#[derive(Clone, Debug)]
pub struct ServedApp {
    pub name: String,
    pub agent: Agent,
    /// The root agent's model, as people write it.
    pub model: String,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AppLookupError {
    #[error("{0}")]
    NotFound(String),
    /// It is there and cannot be used: one sentence for people.
    #[error("{0}")]
    Broken(String),
}

/// Where apps come from. Both calls may look at files, and are made where that does no harm.
pub trait AppRegistry: Send + Sync {
    /// All names in order, those of broken apps too.
    fn names(&self) -> Vec<String>;
    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError>;
}

impl fmt::Debug for dyn AppRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppRegistry").finish_non_exhaustive()
    }
}
