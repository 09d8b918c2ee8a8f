//! The hidden subcommand: a process that gives up its rights and becomes the command.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use super::rules;
use crate::exec::watchdog;

/// The first argument that makes the binary a helper.
pub const CONFINE: &str = "__confine";
/// As shells say that a command was found and could not be run.
const CANNOT_RUN: u8 = 126;

#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an argument")]
pub(super) struct Wish {
    pub(super) writable: Vec<PathBuf>,
    pub(super) no_tcp: bool,
    probe: bool,
    /// Wait for leave on standard input; who would give it may be gone.
    gate: bool,
    watch: bool,
    command: Vec<OsString>,
}

/// What the binary does after [`CONFINE`], with the arguments that follow it. It does not return when all goes well.
pub fn confined_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = parse(args.into_iter()).and_then(|wish| obey(&wish));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nobody is left to tell when even this fails.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::from(CANNOT_RUN)
        }
    }
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Wish, String> {
    let mut wish = Wish::default();
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--rw") => wish.writable.push(args.next().ok_or("--rw needs a directory")?.into()),
            Some("--no-tcp") => wish.no_tcp = true,
            Some("--probe") => wish.probe = true,
            Some("--gate") => wish.gate = true,
            Some(watchdog::WATCH) => wish.watch = true,
            Some("--") => break,
            Some(_) | None => return Err(format!("unknown argument {}", arg.display())),
        }
    }
    wish.command = args.collect();
    Ok(wish)
}

fn obey(wish: &Wish) -> Result<(), String> {
    if wish.watch {
        return watchdog::watch();
    }
    let version = rules::restrict(wish)?;
    if wish.probe {
        return writeln!(io::stdout(), "{version}").map_err(|error| error.to_string());
    }
    let [program, args @ ..] = wish.command.as_slice() else { return Err("no command".to_owned()) };
    // A session of its own has no terminal: nothing can be written to it or read from it behind our back.
    rustix::process::setsid().map_err(|errno| format!("no session of its own: {errno}"))?;
    if wish.gate && !matches!(io::stdin().read(&mut [0]), Ok(1)) {
        return Ok(());
    }
    let error = Command::new(program).args(args).stdin(Stdio::null()).exec();
    Err(format!("{}: {error}", program.display()))
}
