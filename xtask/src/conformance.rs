//! Whether our server answers as ADK's does: recorded exchanges with the real one are sent again, in order, and compared.
//!
//! | read | for |
//! |---|---|
//! | [`rules`], [`ours`] | all that may differ, and why |
//! | [`transcript`] | a recorded exchange, and what of an answer is compared |
//! | [`replay`] | one exchange after the other |
//! | [`compare`], [`ids`], [`printed`] | leaf by leaf, with ids renamed and dicts read |
//! | [`http`], [`server`] | a client in a few lines, and our binary for it |
//! | [`report`] | what differs, and `conformance: N of M` |

mod compare;
mod http;
mod ids;
mod ours;
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

/// With everything as it is by default.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    go(workspace, &Options::default())
}

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    go(workspace, &options(args)?)
}

fn go(workspace: &Workspace, options: &Options) -> Result<bool> {
    let ours = workspace.root.join(TRANSCRIPTS);
    let exchanges = transcript::read_all(options.transcripts.as_ref().unwrap_or(&ours))?;
    let report = match &options.base {
        Some(url) => send_all(&Base::parse(url)?, &exchanges, options),
        None => send_all(&Server::start(workspace)?.base, &exchanges, options),
    };
    if options.json {
        println!("{:#}", report.json());
    } else {
        println!("{}", report.told(options.verbose));
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
