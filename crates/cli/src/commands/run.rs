//! `lango run`: one message, one answer.

use super::talk;
use crate::{args::Run, config::Settings, screen::Screen};
use adk::{
    content::Content,
    event::Event,
    runner::{RunConfig, RunRequest, StreamingMode},
};
use anyhow::{Context, bail};
use std::io::{self, IsTerminal, Read};

pub(crate) async fn run(settings: &Settings, run: Run) -> anyhow::Result<()> {
    let message = message(run.message)?;
    let conversation = talk::open(settings, &run.talk).await?;
    let screen = Screen::new(run.json);
    let mut request = RunRequest::message(conversation.key.clone(), Content::user(message));
    request.config = RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() };
    let cancel = request.cancel.clone();
    let interrupted = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel();
        }
    });
    let show = |event: &Event| screen.show(event);
    let result = conversation.app.agent.run(request, &show).await;
    interrupted.abort();
    screen.end(&conversation.key.session_id);
    screen.check()?;
    result.map_err(Into::into)
}

/// The words of the command line, or what is piped in.
fn message(given: Option<String>) -> anyhow::Result<String> {
    let text = match given.as_deref() {
        Some("-") | None => {
            if given.is_none() && io::stdin().is_terminal() {
                bail!("there is no message; write it as in: lango run \"what time is it?\"");
            }
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
            String::from_utf8(bytes).map_err(|error| {
                anyhow::anyhow!(
                    "the message is not UTF-8: byte {} is invalid",
                    error.utf8_error().valid_up_to()
                )
            })?
        }
        Some(text) => text.to_owned(),
    };
    if text.trim().is_empty() {
        bail!("the message is empty");
    }
    Ok(text)
}
