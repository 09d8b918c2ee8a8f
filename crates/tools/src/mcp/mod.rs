//! Tools of MCP servers: programs that are started here, and servers that are reached by HTTP.
//!
//! | read | for |
//! |---|---|
//! | [`Servers`] | all servers of one app, and the tools that they have now |
//! | `server` | one server: started when it is needed, again when it died, asked again when its list changes |
//! | `list` | what it lists, without the tools that cannot be used |
//! | `call` | one call: its progress, its end with the turn, its time |
//! | `stdio`, `http`, `post` | the two ways to a server |
//! | `thin`, `unescape` | what is too long for memory, kept while it comes |
//! | `tool` | a server's tool as ours |
//! | `answer` | what a server answers, as a model is shown it |
//! | `class`, `name` | what a tool can do, and what it is called here |
//! | [`pins`] | what a person has seen of a server, so that a change is noticed |
//!
//! **Invariant.** A server that does not start or dies takes nobody along, and its trouble is told with its name. No call that
//! may have taken effect is made twice, unless that changes nothing.

mod answer;
mod call;
mod class;
mod http;
mod list;
mod name;
pub mod pins;
mod post;
mod server;
mod servers;
mod stdio;
#[cfg(test)]
mod tests;
mod thin;
mod tool;
mod unescape;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

pub use pins::Pins;
pub use servers::{Listed, Servers};

use crate::{Effect, Mask, OutputStore, Safety, exec::EnvVars};

/// A server, as it was configured.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub name: String,
    /// Where it was configured: tools of two servers of one name are not taken for each other.
    pub origin: String,
    pub link: Link,
    /// What it says of its tools is believed, and what they answer is no stranger's text.
    pub trusted: bool,
    /// For its start and for the list of its tools.
    pub start_time: Duration,
    /// For a call, from its beginning or its last progress on.
    pub call_time: Duration,
    pub tools: BTreeMap<String, ToolConfig>,
}

/// What a person says of one tool of a server.
#[derive(Debug, Clone)]
pub struct ToolConfig {
    pub safety: Option<Safety>,
    pub effect: Option<Effect>,
    pub enabled: bool,
}

/// The way to a server.
#[derive(Clone)]
pub enum Link {
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
    /// There is none, and this is why, with what to do about it.
    None(String),
}

impl ServerConfig {
    /// A server that nobody has said more of.
    pub fn new(name: &str, link: Link) -> Self {
        Self {
            name: name.to_owned(),
            origin: "lango.toml".to_owned(),
            link,
            trusted: false,
            start_time: Duration::from_secs(30),
            call_time: Duration::from_mins(2),
            tools: BTreeMap::new(),
        }
    }
}

/// Values of variables and headers may be secrets: they are not printed.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => {
                f.debug_struct("Stdio").field("command", command).finish_non_exhaustive()
            }
            Self::Http { .. } => f.debug_struct("Http").finish_non_exhaustive(),
            Self::None(why) => f.debug_tuple("None").field(why).finish(),
        }
    }
}

/// What all servers of an app share.
#[derive(Clone)]
pub struct Ground {
    pub environment: EnvVars,
    /// Between the request to end and the end by force.
    pub grace: Duration,
    /// The most that a call may take, whatever its progress.
    pub max_time: Duration,
    pub outputs: OutputStore,
    pub mask: Mask,
    pub pins: Arc<Pins>,
    /// Is told what is wrong with a server, each time that it is something new.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").field("pins", &self.pins).finish_non_exhaustive()
    }
}

/// Tells texts apart, as hexadecimal digits; one long text is not taken for two short ones.
pub fn digest(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let nibble = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    context.finish().as_ref().iter().flat_map(|byte| [nibble(byte >> 4), nibble(byte & 15)]).collect()
}
