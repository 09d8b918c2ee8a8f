//! The command line arguments.

mod token;
mod usage;

pub(crate) use token::{TokenAdd, TokenArgs, TokenCommand};
pub(crate) use usage::{Dimension, StoreArgs, StoreCommand, UsageArgs};

use crate::remote::Address;
use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use server::host_policy::HostPort;
use std::{net::IpAddr, path::PathBuf};
use tools::policy::ApprovalMode;

const EXAMPLES: &str = "\
Examples:
  lango chat                             start a chat; works offline and without an API key
  lango run \"what is in README.md?\"      send one message and print the answer
  lango run --continue \"and in src?\"     continue that session

Sessions are stored in $LANGO_HOME, by default ~/.lango.";

/// Runs LLM agents, and never loses or garbles a conversation.
#[derive(Debug, Parser)]
#[command(name = "lango", version, max_term_width = 100, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) location: LocationArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The location of the configuration.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct LocationArgs {
    /// The configuration file [default: lango.toml here, else in the data directory]
    #[arg(long, global = true, value_name = "FILE", display_order = 900)]
    pub(crate) config: Option<PathBuf>,
    /// The directory of agents [default: agents/ beside the configuration file]
    #[arg(long, global = true, value_name = "DIR", display_order = 901)]
    pub(crate) agents_dir: Option<PathBuf>,
    /// Use the settings found in this folder, for this start only
    #[arg(long, global = true, display_order = 902)]
    pub(crate) trust: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Chat with an agent
    Chat(ChatArgs),
    /// Send one message and print the answer
    Run(RunArgs),
    /// List, show and import sessions
    Sessions(SessionsArgs),
    /// Print the tokens and the cost of model calls
    Usage(UsageArgs),
    /// Maintain the database
    Store(StoreArgs),
    /// List the available models
    Models(ModelsArgs),
    /// Check the setup and report problems with their fixes
    Doctor(DoctorArgs),
    /// Serve the agents over HTTP, with ADK's REST API
    Serve(ServeArgs),
    /// Add, list and revoke access tokens for the server
    Token(TokenArgs),
    /// List the tools of an agent with their origin, safety, effect and approval
    Tools(ToolsArgs),
    /// List and revoke stored approval rules
    Rules(RulesArgs),
    /// List, add and revoke trusted folders, whose settings are used
    Trust(TrustArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) command: TrustCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the trusted folders
    List {
        /// Print each folder as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what the settings of a folder do, and trust it with that
    Add {
        /// The folder
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Revoke the trust in a folder
    Revoke {
        /// The folder, as in the list
        path: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsArgs {
    /// The agent: a folder below agents/
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Print each tool as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the stored approval rules
    List {
        /// Print each rule as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a rule: matching calls require approval again, also in running processes
    Revoke {
        /// The rule's id, as in the list
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// List the models of this provider only
    pub(crate) provider: Option<String>,
    /// List all models of each provider
    #[arg(long)]
    pub(crate) all: bool,
    /// Forget what servers said about their models: of this model (provider/model), or of all
    #[arg(long, value_name = "MODEL", num_args = 0..=1, default_missing_value = "", conflicts_with = "provider")]
    pub(crate) forget: Option<String>,
    /// Print each provider as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print each finding as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// The port; 0 selects a free one
    #[arg(long, value_name = "NUMBER", default_value_t = 18789)]
    pub(crate) port: u16,
    /// Accept requests from this machine without a token
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// PEM file with the certificate chain for TLS, the server's own certificate first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the first certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A host name to accept, besides those of this machine
    #[arg(long = "allow-host", value_name = "NAME", value_parser = host)]
    pub(crate) allowed_hosts: Vec<HostPort>,
    /// ADK's web page: the folder `google/adk/cli/browser` of an installed google-adk
    #[arg(long, value_name = "PATH")]
    pub(crate) dev_ui: Option<PathBuf>,
    /// Seconds that runs may take to finish after a stop signal; unfinished runs continue at the next start
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u64,
    /// What runs without asking: plan, ask, edits or auto [default: that of lango.toml, else ask]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ApprovalMode>,
    /// Log each request to standard error
    #[arg(long)]
    pub(crate) log: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
    /// Chat with an agent of a server, whose runs continue if you disconnect; without URL, the server of this machine
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "http://127.0.0.1:18789",
          conflicts_with_all = ["model", "reasoning", "mode"])]
    pub(crate) server: Option<Address>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The message; read from standard input if it is omitted or `-`; other input is appended to it
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
    /// A file to attach: an image, a PDF, audio or text; may be repeated
    #[arg(long = "file", short, value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// Print every event as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The agent, its model and the session.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ConversationArgs {
    /// Continue this session, or create it
    #[arg(long, short, value_name = "ID", value_parser = session_id)]
    pub(crate) session: Option<String>,
    /// Continue the most recent session
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) last: bool,
    /// The model, as provider/model; `lango models` lists them
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Reasoning effort: off, minimal, low, medium, high, or a number of tokens
    #[arg(long, value_name = "EFFORT", value_parser = reasoning)]
    pub(crate) reasoning: Option<Reasoning>,
    /// The agent: a folder below agents/
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// What runs without asking: plan, ask, edits or auto [default: that of lango.toml, else ask]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ApprovalMode>,
}

/// The reasoning effort of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasoning {
    Tokens(u32),
    Level(&'static str),
}

impl Reasoning {
    /// The effort as ADK's `thinkingConfig`.
    pub(crate) fn as_thinking_config(self) -> Value {
        match self {
            Self::Tokens(tokens) => json!({"thinkingBudget": tokens}),
            Self::Level(level) => json!({"thinkingLevel": level}),
        }
    }
}

fn reasoning(text: &str) -> Result<Reasoning, String> {
    let levels = ["minimal", "low", "medium", "high"];
    match (text, text.parse()) {
        ("off", _) => Ok(Reasoning::Tokens(0)),
        (_, Ok(tokens)) => Ok(Reasoning::Tokens(tokens)),
        _ => match levels.into_iter().find(|level| *level == text) {
            Some(level) => Ok(Reasoning::Level(level)),
            None => Err(format!("expected off, {}, or a number of tokens", levels.join(", "))),
        },
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, most recent first
    List {
        /// Maximum number of sessions
        #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
        /// List by creation; pages then neither miss nor repeat a session
        #[arg(long)]
        created: bool,
        /// Continue after the position that the previous page printed
        #[arg(long, value_name = "POSITION")]
        after: Option<u64>,
    },
    /// Print a session
    Show(ShowArgs),
    /// Find messages in all sessions
    Search(SearchArgs),
    /// Build the search index anew
    Reindex,
    /// Import the sessions of another program; a repeated import adds only new messages
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// The words to look for
    #[arg(required = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Only the session with this id
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Maximum number of messages
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
    /// Print each message as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// The program that wrote the file
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) from: ImportSource,
    /// The program's database; it is only read
    pub(crate) file: PathBuf,
    /// The agent that the sessions are imported for
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportSource {
    /// Lango in Go, up to 0.7
    Lango,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The session's id
    pub(crate) id: String,
    /// The agent of the session, if several agents have a session with this id
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Print each event as one line of JSON
    #[arg(long, conflicts_with = "request")]
    pub(crate) json: bool,
    /// Print the request that a provider would receive if the session continued now
    #[arg(long = "as", value_name = "PROVIDER")]
    pub(crate) request: Option<WireFormat>,
}

fn host(text: &str) -> Result<HostPort, &'static str> {
    HostPort::parse(text).ok_or("write a name like agents.example or agents.example:8443")
}

fn session_id(text: &str) -> Result<String, &'static str> {
    let is_invalid = text.trim() != text || text.chars().any(char::is_control);
    match text {
        "" => Err("a session id must not be empty"),
        _ if is_invalid => {
            Err("a session id must not begin or end with spaces, or contain control characters")
        }
        _ => Ok(text.to_owned()),
    }
}

/// A provider's wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireFormat {
    Openai,
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}
