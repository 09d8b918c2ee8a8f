//! `lango run`: sends one message and prints the answer.

use super::{ask, attach, conversation::Conversation, interrupt::Interrupts, piped_input};
use crate::{
    args::RunArgs,
    config::Settings,
    screen::{Mode, Style, View, note},
};
use adk::content::Content;
use anyhow::{Context, bail};
use bridge::agent::references::PIPED_INPUT;
use std::io::{self, IsTerminal, Read, Write};

pub(crate) async fn run(settings: &Settings, run: RunArgs) -> anyhow::Result<()> {
    let mut content = Content::user(message(run.message.as_deref())?);
    for file in &run.files {
        content.parts.push(attach::part(file)?);
    }
    let mut interrupts = Interrupts::listen()?;
    let attended = ask::is_attended(&io::stderr());
    let conversation =
        interrupts.or_cancelled(Conversation::open(settings, &run.conversation, attended)).await?;
    if let Some(note) = &conversation.app.note {
        let _ = writeln!(io::stderr(), "({note})");
    }
    let mode = if run.json { Mode::Json } else { Mode::Answer };
    let style = Style::new(settings.color && io::stderr().is_terminal());
    let view = View::new(mode, style, settings.models.clone())
        .holding_text(conversation.may_start_over() && !io::stdout().is_terminal());
    let done = converse(&conversation, content, (&view, style), &mut interrupts).await;
    // Also after an error, and after the turns that follow approvals: their spans are lost otherwise.
    conversation.close().await;
    done?;
    if !run.json {
        let session = &conversation.key.session_id;
        note(&format!("(to continue: lango run --session {session} \"…\")"));
    }
    Ok(())
}

/// Sends the message, and asks for the approvals that its answer needs.
async fn converse(
    conversation: &Conversation,
    content: Content,
    (view, style): (&View, Style),
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    interrupts.cancellable(|cancel| conversation.send(content, view, cancel)).await?;
    while let Some(question) = conversation.questions().await?.into_iter().next() {
        let answer = if conversation.is_interrupted(&question) {
            note(ask::INTERRUPTED_QUESTION);
            ask::dismissal(&question)
        } else {
            ask::answer(&question, ask::ask(&question, &mut io::stderr(), style).await?)
        };
        interrupts.cancellable(|cancel| conversation.send(answer, view, cancel)).await?;
    }
    Ok(())
}

/// The message of the command line with the piped input after it, or else standard input alone.
fn message(arg: Option<&str>) -> anyhow::Result<String> {
    let text = match arg {
        Some(text) if text != "-" => match piped_input::read()? {
            Some(input) => format!("{text}{PIPED_INPUT}{input}"),
            None => text.to_owned(),
        },
        Some(_) | None => {
            if arg.is_none() && io::stdin().is_terminal() {
                bail!("there is no message; write it as in: lango run \"what time is it?\"");
            }
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
            utf8(bytes)?
        }
    };
    if text.trim().is_empty() {
        bail!("the message is empty; write it as in: lango run \"what time is it?\"");
    }
    Ok(text)
}

/// Converts a message to a string. The error names the length of the valid prefix.
pub(crate) fn utf8(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        anyhow::anyhow!("the message is not valid UTF-8 after {valid} bytes; it was not sent")
    })
}
