//! What people type.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Runs LLM agents, and never loses or garbles a conversation.
#[derive(Debug, Parser)]
#[command(name = "lango", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the configuration is.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Place {
    /// The configuration file [default: lango.toml here, else in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk with an agent
    Chat(Chat),
    /// Send one message and print the answer
    Run(Run),
    /// Look at stored conversations
    Sessions(Sessions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) talk: Talk,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The message; read from standard input if it is left out or `-`
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) talk: Talk,
    /// Print every event as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// With whom, and where it goes on.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Talk {
    /// Go on with this session, or begin it under this name
    #[arg(long, short, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Go on with the session that was used last
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) last: bool,
    /// The model, as provider/model: `demo`, `scripted/FILE`
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The agent: a folder below agents/
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, the last used first
    List {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Show a conversation
    Show(Show),
    /// Bring the conversations of another program along; a second time, only what is new
    Import(Import),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The program that wrote the file
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) from: Program,
    /// Its database; it is only read
    pub(crate) file: PathBuf,
    /// The agent that goes on with them
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// Lango in Go, up to 0.7
    Lango,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The session's id
    pub(crate) id: String,
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Print each event as one line of JSON
    #[arg(long, conflicts_with = "request")]
    pub(crate) json: bool,
    /// Print the request that a provider would get if the session went on now
    #[arg(long = "as", value_name = "PROVIDER")]
    pub(crate) request: Option<Wire>,
}

/// A provider's wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    Openai,
    Anthropic,
    Gemini,
}
