//! `cargo xtask`: the tasks of the workspace. One `match` maps a command to its module.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its results")]

mod adk_clients;
mod bench;
mod book;
mod catalogue;
mod check;
mod conformance;
mod deny;
mod harness;
mod peers;
mod schema;
mod tidy;
mod torture;
mod workspace;

use std::{error::Error, process::ExitCode};
use workspace::Workspace;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
cargo xtask check [--only STEP]… [--long] [--list]
                                             all steps of CI: fmt, tidy, clippy, docs, book, doctests, tests, crashes, conformance, page, clients,
                                             schema, power-cut, torture; --long runs everything that is sampled otherwise
cargo xtask tidy                             dependencies between crates, sizes, style, a test for each scenario of the specification
cargo xtask docs [--write]                   builds the book in docs/ with mdBook; --write updates its generated parts
cargo xtask deny                             licences, advisories and sources of dependencies, by cargo-deny
cargo xtask catalogue                        generates the model catalogue from the table of the Python package litellm
cargo xtask bench [--list] [--json] [NAME]…  figures of a release build, with the noise of the machine; --list names them
cargo xtask conformance [--base URL] [--transcripts DIR] [--as-recorded] [--verbose] [--json]
                                             compares the answers of our server, or of the one at URL, with recorded answers of ADK
cargo xtask torture [--minutes N] [--kills K] [--seed S]
                                             kills servers repeatedly and verifies that nothing acknowledged is lost
cargo xtask power-cut [--cuts N] [--seed S]  opens the database that a simulated power cut leaves, with the real binary
cargo xtask page                             ADK's web page in Chromium against our server
cargo xtask clients                          Python HTTP clients with google-adk's types and Google's own Python and JavaScript clients against our
                                             server";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(&args).unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}

fn run(args: &[&str]) -> Result<ExitCode> {
    match args {
        ["check", rest @ ..] => check::run(&Workspace::load()?, rest),
        ["tidy"] => Ok(verdict(tidy::run(&Workspace::load()?)?)),
        ["docs", rest @ ..] => Ok(verdict(book::docs(&Workspace::load()?, rest)?)),
        ["deny"] => Ok(verdict(deny::run(&Workspace::load()?)?)),
        ["catalogue"] => Ok(verdict(catalogue::run(&Workspace::load()?)?)),
        ["bench", rest @ ..] => Ok(verdict(bench::run(&Workspace::load()?, rest)?)),
        ["conformance"] => Ok(verdict(conformance::check(&Workspace::load()?)?)),
        ["conformance", rest @ ..] => Ok(verdict(conformance::run(&Workspace::load()?, rest)?)),
        ["torture", rest @ ..] => Ok(verdict(torture::run(&Workspace::load()?, rest)?)),
        ["power-cut", rest @ ..] => Ok(verdict(torture::power_cut::run(&Workspace::load()?, rest)?)),
        ["page"] => Ok(verdict(adk_clients::page(&Workspace::load()?)?)),
        ["clients"] => Ok(verdict(adk_clients::clients(&Workspace::load()?)?)),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("unknown task `{}`; the tasks are:\n{USAGE}", args.join(" ")).into()),
    }
}

fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
