//! Approval questions on the terminal, answered with one key and Enter.

mod keyboard;
mod line;

use crate::screen::{ApprovalPrompt, Style, approval_question, screen_size};
use adk::{
    content::{Content, FunctionResponse, Part},
    pending::{Question, REQUEST_CONFIRMATION},
};
use bridge::{
    ApprovalHint,
    tools::hint::{ALWAYS, REASON, SESSION},
};
use keyboard::RawKeyboard;
use line::{LineReader, LineStep, TypedLine};
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal, Write};

/// The beginning of ADK's generic hint, which tools send that have no hint of their own.
const GENERIC_HINT: &str = "Please approve or reject the tool call";

const PASTED: &str = "Pasted text does not answer; type a key and Enter.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Yes,
    /// Approves the call, and stores a rule for this session.
    Session,
    /// Approves the call, and stores a rule for this folder.
    Always,
    /// With what the person wrote instead of a key.
    No(Option<String>),
}

/// What a line at the question means.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Reply(Reply),
    Expand,
    /// No answer: the question is asked again after this notice.
    Unclear(&'static str),
}

/// Whether a person can be asked: both standard input and `out` are terminals.
pub(crate) fn is_attended(out: &impl IsTerminal) -> bool {
    io::stdin().is_terminal() && out.is_terminal()
}

fn prompt(question: &Question) -> ApprovalPrompt {
    let args = question.call.part.call().and_then(|call| call.args.as_ref());
    let mut hint = ApprovalHint::parse(&question.confirmation);
    if hint.question.is_empty() || hint.question.starts_with(GENERIC_HINT) {
        hint.question = approval_question(question.call.name(), args);
    }
    let text = |key: &str| args.and_then(|args| args.get(key)).and_then(Value::as_str).map(str::to_owned);
    let path = text("path").or_else(|| text("workdir").map(|dir| format!("in {dir}")));
    ApprovalPrompt { tool: question.call.name().to_owned(), path, hint }
}

/// Asks until a line answers. Ctrl-C, Ctrl-D and the end of input reject the call.
pub(crate) async fn ask(
    question: &Question,
    out: &mut (dyn Write + Send),
    style: Style,
) -> anyhow::Result<Reply> {
    let prompt = prompt(question);
    let (mut is_expanded, mut has_fold) = (false, false);
    let mut keyboard = RawKeyboard::open()?;
    loop {
        let (text, is_folded) = prompt.render(screen_size(), style, is_expanded);
        has_fold |= is_folded;
        write!(out, "{text}")?;
        out.flush()?;
        RawKeyboard::discard_input()?;
        // From here on, input answers.
        write!(out, " › ")?;
        out.flush()?;
        let line;
        (keyboard, line) = read_line(keyboard, out).await?;
        writeln!(out)?;
        let Some(line) = line else { return Ok(Reply::No(None)) };
        match interpret(&line, &prompt.hint, has_fold) {
            Meaning::Reply(reply) => return Ok(reply),
            Meaning::Expand => is_expanded = true,
            Meaning::Unclear(notice) => writeln!(out, "{}", style.dim(notice))?,
        }
    }
}

/// Reads and echoes a line. `None` if it was cancelled or the input has ended.
async fn read_line(
    mut keyboard: RawKeyboard,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<(RawKeyboard, Option<TypedLine>)> {
    let mut reader = LineReader::default();
    loop {
        let bytes;
        (keyboard, bytes) = blocking(keyboard, |_| RawKeyboard::read()).await?;
        if bytes.is_empty() {
            return Ok((keyboard, None));
        }
        for (at, byte) in bytes.iter().enumerate() {
            match reader.push(*byte) {
                LineStep::Echo(text) => write!(out, "{text}")?,
                LineStep::Cancelled => return Ok((keyboard, None)),
                LineStep::Done(mut line) => {
                    let is_burst;
                    (keyboard, is_burst) = blocking(keyboard, RawKeyboard::discard_burst).await?;
                    // A line that is followed at once by more input is the first one of a paste.
                    line.is_burst = is_burst || at + 1 < bytes.len();
                    return Ok((keyboard, Some(line)));
                }
            }
        }
        out.flush()?;
    }
}

async fn blocking<T: Send + 'static>(
    keyboard: RawKeyboard,
    work: impl FnOnce(&RawKeyboard) -> io::Result<T> + Send + 'static,
) -> anyhow::Result<(RawKeyboard, T)> {
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&keyboard);
        (keyboard, result)
    });
    let (keyboard, result) = done.await?;
    Ok((keyboard, result?))
}

/// `has_fold` says whether a part of the question was folded.
fn interpret(line: &TypedLine, offered: &ApprovalHint, has_fold: bool) -> Meaning {
    if line.is_burst {
        return Meaning::Unclear(PASTED);
    }
    let text = line.text.trim();
    let meaning = match text {
        "y" | "Y" => Meaning::Reply(Reply::Yes),
        "s" | "S" if offered.session => Meaning::Reply(Reply::Session),
        "a" | "A" if offered.always => Meaning::Reply(Reply::Always),
        "d" | "D" if has_fold || offered.preview.is_some() => Meaning::Expand,
        "" | "n" | "N" => Meaning::Reply(Reply::No(None)),
        text => return Meaning::Reply(Reply::No(Some(text.to_owned()))),
    };
    if line.is_pasted { Meaning::Unclear(PASTED) } else { meaning }
}

/// The notice that a question was rejected because no person can be asked.
pub(crate) fn unattended_notice(question: &Question) -> String {
    let question = prompt(question).hint.question;
    format!("{} No one is available to approve it, so it is rejected.", crate::screen::printable(&question))
}

/// The answer as a message to the agent.
pub(crate) fn answer(question: &Question, reply: Reply) -> Content {
    let confirmation = match reply {
        Reply::Yes => json!({"confirmed": true}),
        Reply::Session => json!({"confirmed": true, "payload": {SESSION: true}}),
        Reply::Always => json!({"confirmed": true, "payload": {ALWAYS: true}}),
        Reply::No(None) => json!({"confirmed": false}),
        Reply::No(Some(reason)) => json!({"confirmed": false, "payload": {REASON: reason}}),
    };
    let response = FunctionResponse {
        id: Some(question.id.clone()),
        name: REQUEST_CONFIRMATION.to_owned(),
        response: confirmation.as_object().cloned(),
        extra: Map::new(),
    };
    Content::new("user", vec![Part::from(response)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_typed_key_approves() {
        let all = ApprovalHint {
            session: true,
            always: true,
            preview: Some(String::new()),
            ..ApprovalHint::default()
        };
        let none = ApprovalHint::default();
        let typed = |text: &str| TypedLine { text: text.to_owned(), ..TypedLine::default() };
        let no = |text: &str| Meaning::Reply(Reply::No(Some(text.to_owned())));
        for (text, reply) in
            [("y", Reply::Yes), (" Y ", Reply::Yes), ("s", Reply::Session), ("a", Reply::Always)]
        {
            assert_eq!(interpret(&typed(text), &all, false), Meaning::Reply(reply));
        }
        assert_eq!(interpret(&typed("d"), &all, false), Meaning::Expand);
        for text in ["", "n", " N"] {
            assert_eq!(interpret(&typed(text), &all, false), Meaning::Reply(Reply::No(None)));
        }
        for text in ["please don't", "yes", "ya", "always", "y y", "a."] {
            assert_eq!(interpret(&typed(text), &all, false), no(text));
        }
        for text in ["s", "a", "d"] {
            assert_eq!(interpret(&typed(text), &none, false), no(text), "not offered");
        }
        let pasted = |text: &str| TypedLine { is_pasted: true, ..typed(text) };
        for text in ["y", "a", "s", "n", "", "d"] {
            assert_eq!(interpret(&pasted(text), &all, false), Meaning::Unclear(PASTED), "{text}");
        }
        assert_eq!(interpret(&pasted("use src instead"), &all, false), no("use src instead"));
        let burst = TypedLine { is_burst: true, ..typed("use src instead") };
        assert_eq!(interpret(&burst, &all, false), Meaning::Unclear(PASTED));
    }
}
