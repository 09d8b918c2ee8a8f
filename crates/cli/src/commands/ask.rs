//! A question to a person: shown with what would happen, and answered with one key.

use crate::screen::{Style, may_it_run, printable};
use adk::{
    content::{Content, FunctionResponse, Part},
    pending::{Question, REQUEST_CONFIRMATION},
};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use serde_json::{Map, json};
use std::io::{self, IsTerminal, Write};

/// How tools ask that have no more to say than their names: ADK's words, for programs.
const PLAIN: &str = "Please approve or reject the tool call";
/// Whoever writes a whole word has so many tenths of a second for each letter.
const TENTHS: u8 = 3;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Yes,
    /// And from now on.
    Always,
    No,
}

/// Whether there is a person to ask: one who can type and who sees what is asked.
pub(crate) fn is_attended(out: &impl IsTerminal) -> bool {
    io::stdin().is_terminal() && out.is_terminal()
}

/// What is asked, in words.
fn wording(question: &Question) -> String {
    let hint = &question.confirmation.hint;
    if !hint.is_empty() && !hint.starts_with(PLAIN) {
        return printable(hint);
    }
    let args = question.call.part.call().and_then(|call| call.args.as_ref());
    may_it_run(question.call.name(), args)
}

/// Whether the answer can be stored.
fn can_be_stored(question: &Question) -> bool {
    question.confirmation.payload.as_ref().is_some_and(|payload| payload.get("always").is_some())
}

/// Asks on a terminal and waits for a key. `None` if the person leaves instead.
pub(crate) async fn ask(
    question: &Question,
    out: &mut (dyn Write + Send),
    style: Style,
) -> anyhow::Result<Option<Reply>> {
    let stored = can_be_stored(question);
    let choice = if stored { "[y/N/a = always]" } else { "[y/N]" };
    // What was typed before the question was seen is no answer to it.
    let keys = Keys::listen()?;
    write!(out, "{} › ", style.bold(format!("{} {choice}", wording(question))))?;
    out.flush()?;
    let reply = tokio::task::spawn_blocking(move || keys.reply(stored)).await??;
    let word = match reply {
        Some(Reply::Yes) => "yes",
        Some(Reply::Always) => "always",
        Some(Reply::No) => "no",
        None => "",
    };
    writeln!(out, "{word}")?;
    Ok(reply)
}

/// The keyboard, key by key. It is as before when this is dropped.
struct Keys {
    before: Termios,
    single: Termios,
}

impl Keys {
    fn listen() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut single = before.clone();
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &single)?;
        Ok(Self { before, single })
    }

    /// The first key that means something, and what is left of the line if it was a word.
    fn reply(mut self, stored: bool) -> io::Result<Option<Reply>> {
        loop {
            // The keys that move the cursor end with a capital A to D: no answer is one of these.
            let reply = match byte()? {
                Some(b'y' | b'Y') => Reply::Yes,
                Some(b'a') if stored => Reply::Always,
                Some(b'n' | b'N' | CTRL_C) => Reply::No,
                Some(b'\n' | b'\r') => return Ok(Some(Reply::No)),
                Some(CTRL_D) | None => return Ok(None),
                Some(_) => continue,
            };
            self.single.special_codes[SpecialCodeIndex::VMIN] = 0;
            self.single.special_codes[SpecialCodeIndex::VTIME] = TENTHS;
            tcsetattr(io::stdin(), OptionalActions::Now, &self.single)?;
            while byte()?.is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {}
            return Ok(Some(reply));
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn byte() -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok(match rustix::io::read(io::stdin(), &mut byte)? {
        0 => None,
        _ => Some(byte[0]),
    })
}

/// The question, and how it is answered without a person.
pub(crate) fn refusal(question: &Question) -> String {
    format!("{} There is nobody to ask, so the answer is no.", wording(question))
}

/// The answer as a message.
pub(crate) fn answer(question: &Question, reply: Reply) -> Content {
    let said = match reply {
        Reply::Yes => json!({"confirmed": true}),
        Reply::Always => json!({"confirmed": true, "payload": {"always": true}}),
        Reply::No => json!({"confirmed": false}),
    };
    let response = FunctionResponse {
        id: Some(question.id.clone()),
        name: REQUEST_CONFIRMATION.to_owned(),
        response: said.as_object().cloned(),
        extra: Map::new(),
    };
    Content::new("user", vec![Part::from(response)])
}
