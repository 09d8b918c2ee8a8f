//! The hidden subcommand `__confine`: a process that restricts itself and then executes the command.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use super::backend;
use crate::exec::watchdog;

/// The first argument that runs the binary as a helper.
pub const CONFINE: &str = "__confine";
/// The exit code of shells for a command that was found but cannot be executed.
const CANNOT_RUN: u8 = 126;

/// The parsed arguments of the helper.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a command line flag")]
pub(super) struct HelperArgs {
    pub(super) writable: Vec<PathBuf>,
    pub(super) no_tcp: bool,
    probe: bool,
    /// Wait for a line on standard input before executing the command, and exit if the input ends first.
    gate: bool,
    watch: bool,
    command: Vec<OsString>,
}

/// The main function of the helper, with the arguments after [`CONFINE`]. On success it replaces the process.
pub fn confined_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = parse(args.into_iter()).and_then(|args| run(&args));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A failure to report the error cannot be reported.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::from(CANNOT_RUN)
        }
    }
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Result<HelperArgs, String> {
    let mut parsed = HelperArgs::default();
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--rw") => parsed.writable.push(args.next().ok_or("--rw needs a directory")?.into()),
            Some("--no-tcp") => parsed.no_tcp = true,
            Some("--probe") => parsed.probe = true,
            Some("--gate") => parsed.gate = true,
            Some(watchdog::WATCH) => parsed.watch = true,
            Some("--") => break,
            Some(_) | None => return Err(format!("unknown argument {}", arg.display())),
        }
    }
    parsed.command = args.collect();
    Ok(parsed)
}

fn run(args: &HelperArgs) -> Result<(), String> {
    if args.watch {
        return watchdog::run_watchdog();
    }
    let version = backend::restrict(args)?;
    if args.probe {
        return writeln!(io::stdout(), "{version}").map_err(|error| error.to_string());
    }
    let [program, program_args @ ..] = args.command.as_slice() else { return Err("no command".to_owned()) };
    // A new session has no controlling terminal, so the command cannot read from or write to the program's.
    rustix::process::setsid().map_err(|errno| format!("setsid failed: {errno}"))?;
    if args.gate && !matches!(io::stdin().read(&mut [0]), Ok(1)) {
        return Ok(());
    }
    let error = Command::new(program).args(program_args).stdin(Stdio::null()).exec();
    Err(format!("{}: {error}", program.display()))
}
