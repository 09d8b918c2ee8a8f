//! Terminal output. Text of models and tools cannot control the terminal.

mod approval;
mod invisible;
mod overlap;
mod sources;
mod status_line;
mod style;
mod text;
mod usage;
mod view;

pub(crate) use approval::ApprovalPrompt;
pub(crate) use style::Style;
pub(crate) use text::{approval_question, json, json_pretty, one_line, printable, summarize_part};
pub(crate) use usage::ModelUsage;
pub(crate) use view::{Mode, View, is_placeholder};

use crate::commands::interrupt::Abandoned;
use adk::error::RunError;
use session::postgres::PostgresUrl;
use std::{
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
    process::ExitCode,
};

/// The width of the terminal, if standard output is one.
pub(crate) fn width() -> Option<usize> {
    width_of(io::stdout())
}

/// Rows and columns of the terminal that standard input is.
pub(crate) fn screen_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdin()).ok()?;
    let size = (usize::from(size.ws_row), usize::from(size.ws_col));
    Some(size).filter(|(rows, columns)| *rows > 0 && *columns > 0)
}

fn width_of(out: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Prints an error with its causes in one line, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader of standard output has closed the pipe.
        return ExitCode::SUCCESS;
    }
    if matches!(error.downcast_ref::<RunError>(), Some(RunError::Cancelled)) {
        let text = error.downcast_ref::<Abandoned>().map(ToString::to_string);
        let text = text.unwrap_or_else(|| "stopped; everything so far is stored".to_owned());
        let _ = writeln!(io::stderr(), "lango: {text}");
        // 128 + SIGINT, as of a process that Ctrl-C has ended.
        return ExitCode::from(130);
    }
    let _ = writeln!(io::stderr(), "lango: {}", format_error(error));
    ExitCode::FAILURE
}

/// Prints an error of the argument parser, or the help, and exits. The parser repeats arguments as they are.
pub(crate) fn exit_with_usage(error: &clap::Error) -> ! {
    let text = error.to_string();
    let safe = printable(&text);
    if safe == text {
        error.exit();
    }
    let _ = writeln!(io::stderr(), "{}", safe.trim_end());
    std::process::exit(error.exit_code())
}

/// Prints a line to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, without repetitions and without OS error numbers.
pub(crate) fn format_error(error: &anyhow::Error) -> String {
    let of_store = error.chain().find_map(|cause| cause.downcast_ref::<session::Error>());
    if let Some(message) = of_store.and_then(format_store_error) {
        return printable(&message);
    }
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(|cause| strip_os_error(&cause.to_string())) {
        if !causes.iter().any(|earlier| earlier.contains(&cause)) {
            causes.push(cause);
        }
    }
    printable(&causes.join(": "))
}

/// Whether the store is a database on a server.
fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| PostgresUrl::parse(text).is_some())
}

/// A store error with its fix. If the store has a name for the fault, SQLite's own message is left out.
fn format_store_error(error: &session::Error) -> Option<String> {
    let advice = match error {
        session::Error::Open { path, .. }
        | session::Error::ReadOnly { path, .. }
        | session::Error::DiskFull { path, .. }
        | session::Error::Unreachable { path, .. }
            if is_url(path) =>
        {
            return Some(format!("{}; check the database and the URL of `database`", error.with_causes()));
        }
        session::Error::Locked { .. } => "; try again when it is done",
        session::Error::DiskFull { .. } => {
            "; free some space and send the message again, nothing else is lost"
        }
        session::Error::ReadOnly { .. } => "; set LANGO_HOME to a directory that can be written",
        session::Error::DamagedSession { .. } => {
            "; other sessions are not affected: start another one, or restore a backup of the database"
        }
        session::Error::Deleted { .. } => "; put it back, or restart to create an empty one",
        session::Error::Replaced { .. } => "; restart to use the new file",
        session::Error::Detached { .. } => "; restart, which loses no data",
        session::Error::Io { source, .. } => {
            let why = strip_os_error(&source.to_string());
            return Some(format!("{error}: {why}; check the disk and send the message again"));
        }
        session::Error::Open { source, .. } => {
            let why = strip_os_error(&source.to_string());
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

/// Removes ` (os error N)` from a message.
pub(crate) fn strip_os_error(message: &str) -> String {
    let mut pieces = message.split(" (os error ");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |message, piece| match piece.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => message + rest,
        Some(_) | None => format!("{message} (os error {piece}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_causes_are_printed_once() {
        let error = anyhow::anyhow!("no space left").context("the file cannot be written: no space left");
        assert_eq!(format_error(&error), "the file cannot be written: no space left");
    }

    #[test]
    fn os_error_numbers_are_removed() {
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2)).context("a.txt cannot be read");
        assert_eq!(format_error(&error), "a.txt cannot be read: No such file or directory");
        assert_eq!(strip_os_error("refused (os error 111); gone (os error x)"), "refused; gone (os error x)");
    }
}
