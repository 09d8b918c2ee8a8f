//! The question whether a folder is trusted, on the terminal. Anything but `y` and Enter means no.

use super::list::{folded, lines, tail, visible};
use super::{TrustRequest, permission::Permissions};
use rustix::{
    event::{PollFd, PollFlags, poll},
    termios::{QueueSelector, tcflush, tcgetwinsize},
};
use std::{
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
};

/// The lines around the list: the introduction and the note about own settings with at most two lines each, and the question.
const FRAME_ROWS: usize = 7;
/// A terminal that does not tell its size.
const DEFAULT_SIZE: (usize, usize) = (24, 80);
/// The longest answer that is read; a longer line is a paste.
const MAX_ANSWER: usize = 64;

/// Asks whether the folder is trusted. `None` without a terminal.
pub(super) fn ask(request: &TrustRequest, new: &Permissions, is_known: bool) -> io::Result<Option<bool>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    if io::stderr().is_terminal() {
        return question(&mut io::stderr(), size(io::stderr()), (request, new, is_known)).map(Some);
    }
    if io::stdout().is_terminal() {
        return question(&mut io::stdout(), size(io::stdout()), (request, new, is_known)).map(Some);
    }
    Ok(None)
}

fn size(out: impl AsFd) -> (usize, usize) {
    let size = tcgetwinsize(out).ok().map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)));
    size.filter(|(rows, columns)| *rows > 0 && *columns > 0).unwrap_or(DEFAULT_SIZE)
}

fn question(
    out: &mut dyn Write,
    (rows, columns): (usize, usize),
    (request, new, is_known): (&TrustRequest, &Permissions, bool),
) -> io::Result<bool> {
    // Room for the sentence around it, so that a long path does not push the list off the screen.
    let folder =
        tail(&visible(&request.folder.display().to_string()), (2 * columns).saturating_sub(60).max(20));
    if is_known {
        writeln!(out, "The settings of {folder} do more than when you trusted them. New:")?;
    } else {
        writeln!(out, "{folder} has settings of its own. If you trust it, it:")?;
    }
    let (list, is_complete) = folded(new, &request.folder, rows.saturating_sub(FRAME_ROWS).max(4), columns);
    write_lines(out, &list)?;
    if let Some(note) = request.own_settings_note() {
        writeln!(out, "{}", tail(&note, 2 * columns))?;
    }
    writeln!(out, "Instructions, and the content of programs and scripts, are not in this list.")?;
    let mut choices = if is_complete { "[y/N]" } else { "[y/N, l = whole list]" };
    loop {
        // Keys that were typed before the question was visible do not answer it.
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        // One write: standard error is not buffered, and an answer must not appear in the middle of the question.
        out.write_all(format!("Trust this folder? {choices} › ").as_bytes())?;
        out.flush()?;
        let answer = read_line()?;
        match answer.trim() {
            "y" | "Y" => return Ok(true),
            "l" | "L" if !is_complete => {
                write_lines(out, &lines(new, &request.folder))?;
                choices = "[y/N]";
            }
            _ => return Ok(false),
        }
    }
}

fn write_lines(out: &mut dyn Write, lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Reads one line and no byte behind it. A paste of several lines is not an answer and returns an empty text.
fn read_line() -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        if rustix::io::read(io::stdin(), &mut byte)? == 0 || byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    let is_paste = line.len() > MAX_ANSWER || has_input()?;
    if is_paste {
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        return Ok(String::new());
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn has_input() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut polled, Some(&zero))? > 0)
}
