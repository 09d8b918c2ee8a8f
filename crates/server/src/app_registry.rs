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

/// The fault of an app. Public: reveals no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppFaultKind {
    /// A file of the app is missing or cannot be read.
    Unreadable,
    /// A file of the app is invalid.
    Invalid,
    /// A model or its provider cannot be used.
    Model,
    /// A tool does not exist, or the tools cannot be used.
    Tools,
    /// The app does more than its folder was trusted with.
    Untrusted,
    Other,
}

impl AppFaultKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Invalid => "invalid",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::Untrusted => "untrusted",
            Self::Other => "other",
        }
    }
}

/// Why an app cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppFault {
    pub kind: AppFaultKind,
    /// The reason with its file and line. Only administrators see it.
    pub reason: String,
}

/// Why an app cannot be served.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AppLookupError {
    /// The message is for clients.
    #[error("{0}")]
    NotFound(String),
    /// The app exists, but cannot be loaded.
    #[error("{}", .0.reason)]
    Broken(AppFault),
}

/// An app whose files cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenApp {
    pub name: String,
    pub fault: AppFault,
    /// Whether an earlier version of the app is served.
    pub serves_previous: bool,
}

/// The listed apps as they were loaded last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppsStatus {
    /// The number of apps that are served, including those that serve an earlier version.
    pub served: usize,
    /// In the order of their names.
    pub broken: Vec<BrokenApp>,
}

/// Finds apps by name. [`names`](Self::names) and [`find`](Self::find) may block while they read configuration files.
pub trait AppRegistry: Send + Sync {
    /// The names of all apps in order, including broken ones.
    fn names(&self) -> Vec<String>;
    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError>;
    /// The result of the last loads. Reads no files.
    fn status(&self) -> AppsStatus;
}

impl fmt::Debug for dyn AppRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppRegistry").finish_non_exhaustive()
    }
}
