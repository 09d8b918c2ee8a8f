//! What the settings of a folder can do beyond the conversation, as a list of single permissions. Trust is stored and compared by
//! this list.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One consequence of a folder's settings. Each is as small as possible, so that removing a setting leaves a subset of the list.
///
/// The order of the variants is the order in which they are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "permission", rename_all = "camelCase")]
pub(crate) enum Permission {
    /// A user who is not this one, and not root, can change files that are not part of the list.
    ChangedByOthers { who: String },
    /// A program is started, by an MCP server or a command tool.
    Program { setting: String, argv: Vec<String>, dir: String },
    /// An environment variable of such a program.
    ProgramVariable { setting: String, name: String, value: String },
    /// A server receives messages, calls or spans.
    Host { setting: String, url: String, content: String },
    /// A server receives a secret.
    Secret { setting: String, url: String, secret: String },
    /// An environment variable is read.
    Variable { name: String, setting: String },
    /// Tools can read a directory.
    Read { path: String },
    /// Tools or commands can write a directory.
    Write { path: String },
    /// A setting of `[approval]` that lets calls run without a question.
    Approval { setting: String, value: String },
    /// Any other setting with a consequence, as it is written. Keys that no rule knows are such settings.
    Setting { key: String, value: String },
    /// A model is used, which decides where messages go.
    Model { setting: String, model: String },
    /// An agent is defined.
    Agent { app: String, agent: String },
    /// An agent has a tool.
    AgentTool { app: String, agent: String, tool: String },
}

pub(crate) type Permissions = BTreeSet<Permission>;

/// The names of the environment variables in the templates of a text: `${NAME}` and `${NAME:-default}`.
pub(super) fn variables(text: &str) -> impl Iterator<Item = &str> {
    let inside =
        text.split("${").skip(1).filter_map(|behind| behind.split_once('}')).map(|(inside, _)| inside);
    inside.map(|inside| inside.split_once(":-").map_or(inside, |(name, _)| name))
}
