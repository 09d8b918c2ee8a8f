//! `cargo xtask conformance`: replays recorded exchanges with ADK's server against ours, in order, and compares the responses.
//!
//! | module | contents |
//! |---|---|
//! | [`rules`], [`intended`] | the allowed differences, with reasons |
//! | [`transcript`] | a recorded exchange, and the compared parts of a response |
//! | [`replay`] | sending and comparing one exchange after the other |
//! | [`compare`], [`ids`], [`printed`] | comparison of JSON values, with ids mapped and printed dicts parsed |
//! | [`http`], [`server`] | a small HTTP client; our binary as a server |
//! | [`report`] | the differences, and `conformance: N of M` |

mod compare;
mod http;
mod ids;
mod intended;
mod printed;
mod replay;
mod report;
mod rules;
pub(crate) mod server;
pub(crate) mod transcript;

#[cfg(test)]
mod tests;

use crate::{Result, Workspace};
use http::Base;
use replay::Replay;
use report::Report;
use server::Server;
use std::path::PathBuf;
use transcript::Exchange;

const TRANSCRIPTS: &str = "fixtures/adk-api/transcripts";

#[derive(Debug, Default)]
struct Options {
    transcripts: Option<PathBuf>,
    base: Option<String>,
    as_recorded: bool,
    verbose: bool,
    json: bool,
}

/// Runs with the default options.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    go(workspace, &Options::default())
}

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    go(workspace, &options(args)?)
}

fn go(workspace: &Workspace, options: &Options) -> Result<bool> {
    let default = workspace.root.join(TRANSCRIPTS);
    let exchanges = transcript::read_all(options.transcripts.as_ref().unwrap_or(&default))?;
    let report = match &options.base {
        Some(url) => send_all(&Base::parse(url)?, &exchanges, options),
        None => send_all(&Server::start(workspace)?.base, &exchanges, options),
    };
    if options.json {
        println!("{:#}", report.json());
    } else {
        println!("{}", report.render(options.verbose));
    }
    Ok(report.is_good())
}

fn send_all(base: &Base, exchanges: &[Exchange], options: &Options) -> Report {
    let mut replay = Replay::new(options.as_recorded);
    Report::new(exchanges.iter().map(|exchange| replay.step(base, exchange)).collect())
}

fn options(args: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut rest = args;
    while let [first, after @ ..] = rest {
        rest = after;
        match (*first, after) {
            ("--verbose", _) => options.verbose = true,
            ("--json", _) => options.json = true,
            ("--as-recorded", _) => options.as_recorded = true,
            ("--transcripts", [dir, after @ ..]) => {
                options.transcripts = Some(dir.into());
                rest = after;
            }
            ("--base", [url, after @ ..]) => {
                options.base = Some((*url).to_owned());
                rest = after;
            }
            _ => {
                let known = "`--transcripts DIR`, `--base URL`, `--as-recorded`, `--verbose` and `--json`";
                return Err(format!("conformance takes {known}, not `{first}`").into());
            }
        }
    }
    Ok(options)
}
