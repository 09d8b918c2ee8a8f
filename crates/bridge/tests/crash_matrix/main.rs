//! The crash matrix: every fail point of a turn × kinds of runs × faults × queue lengths, each in its own process.
//!
//! ```text
//! cargo test -p bridge --test crash_matrix                       a fixed subset
//! cargo test -p bridge --test crash_matrix -- --all              all of it
//! cargo test -p bridge --test crash_matrix -- --case JSON        one case, with the full output of its processes
//! ```
//!
//! After each case: the log equals the log without the fault, apart from interrupted answers; each accepted message
//! is in it once, in order of acceptance, and answered; no run is left open; each reader received each event of its run
//! once; every request is legal for every provider; the next message works.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]
#![expect(clippy::print_stdout, reason = "prints a report")]

mod agents;
mod case;
mod cases;
mod client;
mod log;
mod matrix;
mod model;
mod process;
mod process_main;
mod report;
mod table;
mod verify;

use std::{env, process::ExitCode};

const NAME: &str = "crash_matrix";
/// `all` selects the whole matrix, `none` no case.
const ENVIRONMENT: &str = "LANGO_CRASH_MATRIX";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has(process::CHILD) {
        process::be_child();
        return ExitCode::SUCCESS;
    }
    if has("--list") {
        if !has("--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(at) = args.iter().position(|arg| arg == "--case") {
        return matrix::show(args.get(at + 1).map_or("", String::as_str));
    }
    // A filter for other tests.
    if has("--ignored") || args.iter().any(|arg| !arg.starts_with("--") && !NAME.contains(arg.as_str())) {
        return ExitCode::SUCCESS;
    }
    match env::var(ENVIRONMENT).as_deref() {
        Ok("none") => ExitCode::SUCCESS,
        Ok("all") => matrix::run(true),
        _ => matrix::run(has("--all")),
    }
}
