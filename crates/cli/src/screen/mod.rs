//! What a person sees. Nothing that a model or a tool says can steer the terminal.

mod overlap;
mod spent;
mod style;
mod text;
mod view;
mod waiting;

pub(crate) use spent::Spent;
pub(crate) use style::Style;
pub(crate) use text::{glimpse, json, json_pretty, may_it_run, one_line, printable};
pub(crate) use view::{Mode, View};

use crate::commands::interrupt::Abandoned;
use adk::error::RunError;
use std::{
    io::{self, Write},
    os::fd::AsFd,
    process::ExitCode,
};

/// How wide the terminal is, if standard output is one.
pub(crate) fn width() -> Option<usize> {
    width_of(io::stdout())
}

fn width_of(out: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Says what went wrong, in one sentence, with its causes.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // Whoever read our output has had enough.
        return ExitCode::SUCCESS;
    }
    if matches!(error.downcast_ref::<RunError>(), Some(RunError::Cancelled)) {
        let text = error.downcast_ref::<Abandoned>().map(ToString::to_string);
        let text = text.unwrap_or_else(|| "stopped; what was said so far is kept".to_owned());
        let _ = writeln!(io::stderr(), "lango: {text}");
        // As of a program that Ctrl-C has ended.
        return ExitCode::from(130);
    }
    let _ = writeln!(io::stderr(), "lango: {}", sentence(error));
    ExitCode::FAILURE
}

/// A line beside the output, for whoever watches.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, each said once, without the numbers that only the system knows.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let of_store = error.chain().find_map(|cause| cause.downcast_ref::<session::Error>());
    if let Some(told) = of_store.and_then(about_store) {
        return printable(&told);
    }
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(|cause| without_number(&cause.to_string())) {
        if !said.iter().any(|earlier| earlier.contains(&cause)) {
            said.push(cause);
        }
    }
    printable(&said.join(": "))
}

/// What a person can do about it. The store's own words are enough where it has a name for the fault; what SQLite calls it
/// helps nobody.
fn about_store(error: &session::Error) -> Option<String> {
    let advice = match error {
        session::Error::Locked { .. } => "; try again when it is done",
        session::Error::DiskFull { .. } => "; make room and send the message again, nothing else is lost",
        session::Error::ReadOnly { .. } => "; set LANGO_HOME to a directory that can be written",
        session::Error::DamagedSession { .. } => {
            "; other sessions go on: begin another one, or restore a copy of the database"
        }
        session::Error::Deleted { .. } => "; put it back, or start again to begin an empty one",
        session::Error::Replaced { .. } => "; start again to use the new file",
        session::Error::Detached { .. } => "; start again, which loses nothing",
        session::Error::Io { source, .. } => {
            let why = without_number(&source.to_string());
            return Some(format!("{error}: {why}; check the disk and send the message again"));
        }
        session::Error::Open { source, .. } => {
            let why = without_number(&source.to_string());
            return Some(format!("{error}: {why}; set LANGO_HOME to a directory that can be written"));
        }
        session::Error::Backend(source) => return Some(format!("{error}: {source}")),
        session::Error::Damaged { .. }
        | session::Error::NewerSchema { .. }
        | session::Error::OlderSchema { .. } => "",
        _ => return None,
    };
    Some(format!("{error}{advice}"))
}

/// Without what only the system calls an error.
pub(crate) fn without_number(message: &str) -> String {
    let mut pieces = message.split(" (os error ");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |told, piece| match piece.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => told + rest,
        Some(_) | None => format!("{told} (os error {piece}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_repeats_its_effect_is_said_once() {
        let error = anyhow::anyhow!("no space left").context("the file cannot be written: no space left");
        assert_eq!(sentence(&error), "the file cannot be written: no space left");
    }

    #[test]
    fn the_systems_numbers_are_left_out() {
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2)).context("a.txt cannot be read");
        assert_eq!(sentence(&error), "a.txt cannot be read: No such file or directory");
        assert_eq!(without_number("refused (os error 111); gone (os error x)"), "refused; gone (os error x)");
    }
}
