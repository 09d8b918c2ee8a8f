//! `lango run`: one message, one answer.

use super::{ask, attach, interrupt::Interrupts, talk::Conversation};
use crate::{
    args::RunArgs,
    config::Settings,
    screen::{Mode, Style, View, one_line},
};
use adk::content::Content;
use anyhow::{Context, bail};
use std::io::{self, IsTerminal, Read, Write};

pub(crate) async fn run(settings: &Settings, run: RunArgs) -> anyhow::Result<()> {
    let mut content = Content::user(message(run.message.as_deref())?);
    for file in &run.files {
        content.parts.push(attach::part(file)?);
    }
    let mut interrupts = Interrupts::listen()?;
    let attended = ask::is_attended(&io::stderr());
    let conversation = interrupts.unless(Conversation::open(settings, &run.talk, attended)).await?;
    if let Some(note) = &conversation.app.note {
        let _ = writeln!(io::stderr(), "({note})");
    }
    let mode = if run.json { Mode::Json } else { Mode::Answer };
    let style = Style::new(settings.color && io::stderr().is_terminal());
    let view = View::new(mode, style, settings.models.clone());
    let sent = interrupts.cancel(|cancel| conversation.send(content, &view, cancel)).await;
    conversation.close().await;
    sent?;
    let session = &conversation.key.session_id;
    while let Some(question) = conversation.questions().await?.into_iter().next() {
        let Some(reply) = ask::ask(&question, &mut io::stderr(), style).await? else {
            let name = one_line(question.call.name(), 60);
            let _ = writeln!(
                io::stderr(),
                "{name} waits for your word: answer it with lango chat --session {session}"
            );
            break;
        };
        let answer = ask::answer(&question, reply);
        interrupts.cancel(|cancel| conversation.send(answer, &view, cancel)).await?;
    }
    if !run.json {
        let _ = writeln!(io::stderr(), "(lango run --session {session} \"…\" goes on from here)");
    }
    Ok(())
}

/// The words of the command line, or what is piped in.
fn message(given: Option<&str>) -> anyhow::Result<String> {
    let text = match given {
        Some(text) if text != "-" => text.to_owned(),
        Some(_) | None => {
            if given.is_none() && io::stdin().is_terminal() {
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

/// Text, or the place where it stops being text.
pub(crate) fn utf8(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        anyhow::anyhow!("the message is not valid UTF-8 after {good} bytes; it was not sent")
    })
}
