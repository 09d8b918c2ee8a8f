//! The arguments of `lango usage` and `lango store`.

use bridge::store::usage_report::{UsageGroup, group_of, parse_day};
use clap::Subcommand;

/// A dimension of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Group(UsageGroup),
    Model,
}

fn dimension(name: &str) -> Result<Dimension, String> {
    let group = || group_of(name).map(Dimension::Group);
    let found = if name == "model" { Some(Dimension::Model) } else { group() };
    found.ok_or_else(|| "choose from day, app, user, session, agent and model".to_owned())
}

fn day(text: &str) -> Result<i64, String> {
    parse_day(text).ok_or_else(|| "expected a day such as 2026-11-19".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct UsageArgs {
    /// The dimensions of the table, separated by commas: day, app, user, session, agent, model
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "day,model", value_parser = dimension)]
    pub(crate) by: Vec<Dimension>,
    /// The first day, in UTC
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub(crate) from: Option<i64>,
    /// The last day, in UTC
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub(crate) to: Option<i64>,
    /// Only this agent's app
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Only this user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only this model, as provider/model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Rewrite the database without free space; no other program may use it
    Compact,
}
