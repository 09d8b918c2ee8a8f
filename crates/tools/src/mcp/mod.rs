//! Tools of MCP servers, over stdio and streamable HTTP.
//!
//! | module | contents |
//! |---|---|
//! | [`McpServers`] | all servers of one app, and their current tools |
//! | `server` | one server: lazy start, restart with backoff, refresh of the tool list |
//! | `tool_list` | `tools/list` with validation |
//! | `offers` | lists of resources and prompts |
//! | `content`, `prompts` | resources and prompts that a person adds to a message |
//! | `call` | one call: progress, cancellation, timeouts |
//! | `elicitation`, [`ParkedCalls`] | questions of a server to the user, and calls that wait for the answer |
//! | `failure` | errors of the protocol library, in sentences |
//! | `stdio`, `http_transport`, `http_client` | the two transports |
//! | `spill`, `json_unescape` | long strings are spilled to the output store while a message is received |
//! | `tool` | a server's tool as a [`Tool`](crate::Tool) |
//! | `received`, `tool_result` | lenient parsing of results, and their conversion |
//! | `classify`, `tool_name` | safety class and name of a server's tool |
//! | [`pins`] | digests of tool descriptions that a person has seen, to detect changes |
//!
//! **Invariant.** A server that fails to start or dies affects no other server, and its error names it. A call that may have
//! taken effect is repeated only if its tool is read-only or idempotent.

mod call;
mod classify;
mod content;
mod elicitation;
mod failure;
mod http_client;
mod http_transport;
mod json_unescape;
#[cfg(test)]
mod mutated_messages;
mod offers;
mod parked;
pub mod pins;
mod prompts;
mod received;
mod server;
mod servers;
mod spill;
mod stdio;
#[cfg(test)]
mod tests;
mod tool;
mod tool_list;
mod tool_name;
mod tool_result;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

pub use content::{McpContent, McpPart};
pub use offers::{McpOffer, OfferKind};
pub use parked::ParkedCalls;
pub use pins::ToolPins;
pub use servers::{ListedTool, McpServers};

use crate::{
    Effect, Mask, OutputStore, Safety,
    exec::{EnvVars, LazySandbox},
};

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct McpServerConfig {
    pub name: String,
    /// The configuration file, which distinguishes servers of the same name.
    pub origin: String,
    pub transport: McpTransport,
    /// The annotations of its tools are trusted, and their results are not untrusted text.
    pub trusted: bool,
    /// Timeout of the start, and of listing its tools.
    pub start_time: Duration,
    /// Timeout of a call, since its start or its last progress notification.
    pub call_time: Duration,
    /// How long a call waits for the user's answer to a question of the server.
    pub answer_time: Duration,
    pub tools: BTreeMap<String, McpToolConfig>,
    /// Whether its program runs in the sandbox, with the profile `workspace`.
    pub sandboxed: bool,
}

/// The configuration of one tool of a server.
#[derive(Debug, Clone)]
pub struct McpToolConfig {
    pub safety: Option<Safety>,
    pub effect: Option<Effect>,
    pub enabled: bool,
}

/// How a server is reached.
#[derive(Clone)]
pub enum McpTransport {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: PathBuf,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
    /// The server is not used. The text says why and what to do about it.
    Unavailable(String),
}

impl McpServerConfig {
    /// A server with default settings.
    pub fn new(name: &str, transport: McpTransport) -> Self {
        Self {
            name: name.to_owned(),
            origin: "lango.toml".to_owned(),
            transport,
            trusted: false,
            start_time: Duration::from_secs(30),
            call_time: Duration::from_mins(2),
            answer_time: Duration::from_hours(1),
            tools: BTreeMap::new(),
            sandboxed: false,
        }
    }
}

/// Arguments, variables, URL and headers are not printed, because they may contain secrets.
impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => {
                f.debug_struct("Stdio").field("command", command).finish_non_exhaustive()
            }
            Self::Http { .. } => f.debug_struct("Http").finish_non_exhaustive(),
            Self::Unavailable(why) => f.debug_tuple("Unavailable").field(why).finish(),
        }
    }
}

/// State shared by all servers of an app.
#[derive(Clone)]
pub struct ServerEnv {
    pub env: EnvVars,
    pub sandbox: LazySandbox,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Upper limit of the duration of a call, regardless of progress.
    pub max_time: Duration,
    pub outputs: OutputStore,
    pub mask: Mask,
    pub pins: Arc<ToolPins>,
    /// The calls that wait for answers of users.
    pub parked: ParkedCalls,
    /// Whether users can be asked.
    pub can_ask: bool,
    /// Called with each new problem of a server.
    pub on_problem: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for ServerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEnv").field("pins", &self.pins).finish_non_exhaustive()
    }
}

/// SHA-256 of a sequence of texts in hexadecimal. The lengths are hashed, too, so `["ab"]` and `["a", "b"]` differ.
pub fn digest(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let nibble = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    context.finish().as_ref().iter().flat_map(|byte| [nibble(byte >> 4), nibble(byte & 15)]).collect()
}
