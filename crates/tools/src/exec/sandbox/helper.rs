//! The hidden subcommand `__confine`: the stages of the sandbox, and the watchdog.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use super::probe::{PROBE, run_probe};
use crate::exec::watchdog;

/// The first argument that runs the binary as a helper.
pub const CONFINE: &str = "__confine";
/// The argument after [`CONFINE`] that runs the first stage.
pub(super) const SUPERVISE: &str = "--supervise";
/// The argument after [`CONFINE`] that runs the second stage.
pub(super) const INIT: &str = "--init";

/// The exit code of shells for a command that was found but cannot be executed.
const CANNOT_RUN: u8 = 126;

/// The main function of the helper, with the arguments after [`CONFINE`].
pub fn confined_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let done = match args.iter().map(|arg| arg.to_str()).collect::<Vec<_>>().as_slice() {
        [Some(watchdog::WATCH)] => watchdog::run_watchdog(),
        [Some(SUPERVISE)] => super::backend::run_supervisor(),
        [Some(INIT)] => super::backend::run_init(),
        [Some(PROBE), Some(action), Some(arg)] => run_probe(action, arg),
        _ => Err("unknown arguments".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A failure to report the error cannot be reported.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::from(CANNOT_RUN)
        }
    }
}
