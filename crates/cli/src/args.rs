//! What people type.

use crate::remote::Address;
use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use server::host_policy::HostPort;
use std::{net::IpAddr, path::PathBuf};

const EXAMPLES: &str = "\
Examples:
  lango chat                             talk, offline and without a key to begin with
  lango run \"what is in README.md?\"      one message, one answer
  lango run --continue \"and in src?\"     go on with that conversation

Conversations are kept in $LANGO_HOME, by default ~/.lango.";

/// Runs LLM agents, and never loses or garbles a conversation.
#[derive(Debug, Parser)]
#[command(name = "lango", version, max_term_width = 100, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) place: LocationArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Where the configuration is.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct LocationArgs {
    /// The configuration file [default: lango.toml here, else in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Talk with an agent
    Chat(ChatArgs),
    /// Send one message and print the answer
    Run(RunArgs),
    /// Look at stored conversations
    Sessions(SessionsArgs),
    /// List the models that can be asked
    Models(ModelsArgs),
    /// Say what is missing, with the fix
    Doctor(DoctorArgs),
    /// Serve the agents to programs and browsers, with ADK's REST API
    Serve(ServeArgs),
    /// Give others tokens for the server, and take them back
    Token(TokenArgs),
    /// List the tools of an agent: where they come from, what they can do, and whether they ask
    Tools(ToolsArgs),
    /// Look at what tools may always do, and take it back
    Rules(RulesArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsArgs {
    /// The agent: a folder below agents/
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Print each tool as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Let the MCP servers of this directory's .mcp.json start, as long as it stays as it is now
    #[arg(long)]
    pub(crate) approve: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List what was allowed for good
    List {
        /// Print each rule as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a rule back: such calls ask again, also in a program that is running
    Revoke {
        /// Its id, as the list shows it
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Of this provider only
    pub(crate) provider: Option<String>,
    /// List all that each provider offers
    #[arg(long)]
    pub(crate) all: bool,
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
    /// The port; 0 takes any that is free
    #[arg(long, value_name = "NUMBER", default_value_t = 18789)]
    pub(crate) port: u16,
    /// Let every program of this machine in without a token
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// The certificates for TLS, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the first certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A name that the server goes by, besides this machine's own
    #[arg(long = "allow-host", value_name = "NAME", value_parser = host)]
    pub(crate) allowed_hosts: Vec<HostPort>,
    /// ADK's web page: the folder `google/adk/cli/browser` of an installed google-adk
    #[arg(long, value_name = "PATH")]
    pub(crate) dev_ui: Option<PathBuf>,
    /// How many seconds runs may go on when the server is told to stop; what is not done then goes on at the next start
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u64,
    /// Write a line for every request to standard error
    #[arg(long)]
    pub(crate) log: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    Add(TokenAdd),
    /// List tokens by name
    List,
    /// Make a token worthless, also for a server that is running
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenAdd {
    /// A name to know it by
    #[arg(value_parser = token_name)]
    pub(crate) name: String,
    /// The user whose sessions it opens
    #[arg(long, value_parser = token_name, required_unless_present = "admin")]
    pub(crate) user: Option<String>,
    /// Let it change what all users share, and without --user be any user
    #[arg(long)]
    pub(crate) admin: bool,
    /// How long it is good, such as 90d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) talk: ConversationArgs,
    /// Talk to a server's agent instead, which goes on if you leave; this machine's if no address is given
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "http://127.0.0.1:18789",
          conflicts_with_all = ["model", "reasoning"])]
    pub(crate) server: Option<Address>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The message; read from standard input if it is left out or `-`
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) talk: ConversationArgs,
    /// A file that goes along: an image, a PDF, audio or text; any number of them
    #[arg(long = "file", short, value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// Print every event as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// With whom, and where it goes on.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ConversationArgs {
    /// Go on with this session, or begin it under this name
    #[arg(long, short, value_name = "ID", value_parser = session_id)]
    pub(crate) session: Option<String>,
    /// Go on with the session that was used last
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) last: bool,
    /// The model, as provider/model; `lango models` lists them
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// How hard the model thinks first: off, minimal, low, medium, high, or a number of tokens
    #[arg(long, value_name = "EFFORT", value_parser = reasoning)]
    pub(crate) reasoning: Option<Reasoning>,
    /// The agent: a folder below agents/
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
}

/// How hard a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasoning {
    Tokens(u32),
    Level(&'static str),
}

impl Reasoning {
    /// In ADK's words.
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
            None => Err(format!("it is off, {}, or a number of tokens", levels.join(", "))),
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
    /// List sessions, the last used first
    List {
        /// How many
        #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
    },
    /// Show a conversation
    Show(ShowArgs),
    /// Bring the conversations of another program along; a second time, only what is new
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// The program that wrote the file
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) from: ImportSource,
    /// Its database; it is only read
    pub(crate) file: PathBuf,
    /// The agent that goes on with them
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
    /// The agent that the session belongs to, where two have one of that id
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Print each event as one line of JSON
    #[arg(long, conflicts_with = "request")]
    pub(crate) json: bool,
    /// Print the request that a provider would get if the session went on now
    #[arg(long = "as", value_name = "PROVIDER")]
    pub(crate) request: Option<WireFormat>,
}

fn host(text: &str) -> Result<HostPort, &'static str> {
    HostPort::parse(text).ok_or("write a name like agents.example or agents.example:8443")
}

fn token_name(text: &str) -> Result<String, &'static str> {
    let odd = text.trim() != text || text.is_empty() || text.chars().any(char::is_control);
    if odd {
        Err("it is empty, has spaces around it or control characters in it")
    } else {
        Ok(text.to_owned())
    }
}

fn session_id(text: &str) -> Result<String, &'static str> {
    let odd = text.trim() != text || text.chars().any(char::is_control);
    match text {
        "" => Err("a session needs a name"),
        _ if odd => Err("a session's name has no spaces around it and no control characters"),
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
