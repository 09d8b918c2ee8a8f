//! Approval questions on the terminal, answered with one key.

use crate::screen::{Style, approval_question, printable};
use adk::{
    content::{Content, FunctionResponse, Part},
    pending::{Question, REQUEST_CONFIRMATION},
};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use serde_json::{Map, json};
use std::io::{self, IsTerminal, Write};

/// The beginning of ADK's generic hint, which tools send that have no hint of their own.
const GENERIC_HINT: &str = "Please approve or reject the tool call";
/// The timeout for each further key of an answer that is typed as a whole word, in tenths of a second (`VTIME`).
const NEXT_KEY_TENTHS: u8 = 3;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Yes,
    /// Approves the call and stores a rule for later ones.
    Always,
    No,
}

/// Whether a person can be asked: both standard input and `out` are terminals.
pub(crate) fn is_attended(out: &impl IsTerminal) -> bool {
    io::stdin().is_terminal() && out.is_terminal()
}

fn question_text(question: &Question) -> String {
    let hint = &question.confirmation.hint;
    if !hint.is_empty() && !hint.starts_with(GENERIC_HINT) {
        return printable(hint);
    }
    let args = question.call.part.call().and_then(|call| call.args.as_ref());
    approval_question(question.call.name(), args)
}

/// Whether the answer can be stored as a rule.
fn can_be_stored(question: &Question) -> bool {
    question.confirmation.payload.as_ref().is_some_and(|payload| payload.get("always").is_some())
}

/// Prints the question and waits for a key. `None` at the end of input or on Ctrl-D.
pub(crate) async fn ask(
    question: &Question,
    out: &mut (dyn Write + Send),
    style: Style,
) -> anyhow::Result<Option<Reply>> {
    let storable = can_be_stored(question);
    let choices = if storable { "[y/N/a = always]" } else { "[y/N]" };
    // Discards type-ahead: keys that were typed before the question was visible do not answer it.
    let keyboard = RawKeyboard::open()?;
    write!(out, "{} › ", style.bold(format!("{} {choices}", question_text(question))))?;
    out.flush()?;
    let reply = tokio::task::spawn_blocking(move || keyboard.read_reply(storable)).await??;
    let word = match reply {
        Some(Reply::Yes) => "yes",
        Some(Reply::Always) => "always",
        Some(Reply::No) => "no",
        None => "",
    };
    writeln!(out, "{word}")?;
    Ok(reply)
}

/// Standard input without line editing and echo. Dropping it restores the terminal settings.
struct RawKeyboard {
    saved: Termios,
    raw: Termios,
}

impl RawKeyboard {
    fn open() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Self { saved, raw })
    }

    /// Reads up to the first key that is an answer, and consumes the rest of the line if the answer was typed as a word.
    fn read_reply(mut self, storable: bool) -> io::Result<Option<Reply>> {
        loop {
            // Escape sequences of cursor keys end with an uppercase A to D, so these letters must not be answers.
            let reply = match read_byte()? {
                Some(b'y' | b'Y') => Reply::Yes,
                Some(b'a') if storable => Reply::Always,
                Some(b'n' | b'N' | CTRL_C) => Reply::No,
                Some(b'\n' | b'\r') => return Ok(Some(Reply::No)),
                Some(CTRL_D) | None => return Ok(None),
                Some(_) => continue,
            };
            self.raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            self.raw.special_codes[SpecialCodeIndex::VTIME] = NEXT_KEY_TENTHS;
            tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?;
            while read_byte()?.is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {}
            return Ok(Some(reply));
        }
    }
}

impl Drop for RawKeyboard {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
    }
}

fn read_byte() -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok(match rustix::io::read(io::stdin(), &mut byte)? {
        0 => None,
        _ => Some(byte[0]),
    })
}

/// The notice that a question was rejected because no person can be asked.
pub(crate) fn unattended_notice(question: &Question) -> String {
    format!("{} No one is available to approve it, so it is rejected.", question_text(question))
}

/// The answer as a message to the agent.
pub(crate) fn answer(question: &Question, reply: Reply) -> Content {
    let confirmation = match reply {
        Reply::Yes => json!({"confirmed": true}),
        Reply::Always => json!({"confirmed": true, "payload": {"always": true}}),
        Reply::No => json!({"confirmed": false}),
    };
    let response = FunctionResponse {
        id: Some(question.id.clone()),
        name: REQUEST_CONFIRMATION.to_owned(),
        response: confirmation.as_object().cloned(),
        extra: Map::new(),
    };
    Content::new("user", vec![Part::from(response)])
}
