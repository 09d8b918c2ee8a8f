//! The workspace's chores: one `match` from a word to the module that does it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to the person who runs it"
)]

mod bench;
mod book;
mod check;
mod conformance;
mod deny;
mod peers;
mod rig;
mod schema;
mod tidy;
mod torture;
mod visitors;
mod workspace;

use std::{error::Error, process::ExitCode};
use workspace::Workspace;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
cargo xtask check [--only STEP]… [--long] [--list]
                                             everything that CI asks: fmt, tidy, clippy, docs, book, doc tests, tests, crashes, conformance, page, clients,
                                             schema, power-cut, torture; with --long all of what is sampled else
cargo xtask tidy                             arrows between crates, sizes, habits, a test for each scenario of the specification
cargo xtask docs [--write]                   the book in docs/, built with mdBook; with --write its generated parts
cargo xtask deny                             licences, advisories and sources of dependencies, by cargo-deny
cargo xtask bench [--json] [NAME]…           figures of a release build, with a stamp of how noisy the machine was
cargo xtask conformance [--base URL] [--transcripts DIR] [--as-recorded] [--verbose] [--json]
                                             ADK's recorded answers beside those of our server, or of the one at URL
cargo xtask torture [--minutes N] [--kills K] [--seed S]
                                             kills servers over and over, and verifies all that they acknowledged
cargo xtask power-cut [--cuts N] [--seed S]  what a power cut leaves of a database under load, opened by the real binary
cargo xtask page                             ADK's own web page in Chromium, talking with our server
cargo xtask clients                          Python's HTTP clients and google-adk's types, talking with our server";

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
        ["bench", rest @ ..] => Ok(verdict(bench::run(&Workspace::load()?, rest)?)),
        ["conformance"] => Ok(verdict(conformance::check(&Workspace::load()?)?)),
        ["conformance", rest @ ..] => Ok(verdict(conformance::run(&Workspace::load()?, rest)?)),
        ["torture", rest @ ..] => Ok(verdict(torture::run(&Workspace::load()?, rest)?)),
        ["power-cut", rest @ ..] => Ok(verdict(torture::power_cut::run(&Workspace::load()?, rest)?)),
        ["page"] => Ok(verdict(visitors::page(&Workspace::load()?)?)),
        ["clients"] => Ok(verdict(visitors::clients(&Workspace::load()?)?)),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("`{}` is not a chore; these are:\n{USAGE}", args.join(" ")).into()),
    }
}

fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
