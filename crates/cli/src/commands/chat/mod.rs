//! `lango chat`: a conversation in the terminal, or line by line in a pipe.

mod command;
mod input;

use super::{
    sessions,
    talk::{Conversation, answer, recent},
};
use crate::{
    args::Chat,
    config::Settings,
    screen::{Mode, Style, View, one_line, sentence},
    wiring,
};
use adk::{content::Content, error::RunError, event::mint_id, facts::Question, session::SessionKey};
use command::Command;
use input::{Input, Line};
use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

pub(crate) async fn chat(settings: &Settings, chat: Chat) -> anyhow::Result<()> {
    let interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
    let conversation = Conversation::open(settings, &chat.talk).await?;
    let style = Style::new(settings.color && io::stdout().is_terminal());
    let mode = if interactive { Mode::Talk } else { Mode::Answer };
    let mut room = Room {
        settings,
        app: chat.talk.app,
        conversation,
        view: View::new(mode, style),
        style,
        input: Input::open(interactive, &settings.history_file)?,
        interactive,
    };
    if interactive {
        room.greet()?;
    }
    room.talk().await
}

struct Room<'a> {
    settings: &'a Settings,
    /// The agent that was asked for.
    app: Option<String>,
    conversation: Conversation,
    view: View,
    style: Style,
    input: Input,
    interactive: bool,
}

impl Room<'_> {
    fn greet(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let (name, model) = (&self.conversation.app.name, &self.conversation.app.model);
        writeln!(
            out,
            "{} {} · agent {name} · model {model}",
            self.style.bold("lango"),
            env!("CARGO_PKG_VERSION")
        )?;
        if model == "demo" {
            let honest = "demo is a small set of rules, not a language model: it tells the time, calculates, and reads, lists and searches files here.";
            writeln!(out, "{}", self.style.dim(honest))?;
        }
        writeln!(
            out,
            "{}",
            self.style.dim("/help shows what else you can type; Ctrl-C stops an answer, Ctrl-D leaves.")
        )
    }

    async fn talk(&mut self) -> anyhow::Result<()> {
        loop {
            match self.input.line().await? {
                Line::Said(text) if text.trim().is_empty() => {}
                Line::Said(text) => match Command::parse(&text) {
                    Some(Command::Quit) => return Ok(()),
                    Some(command) => self.obey(command).await?,
                    None => self.say(Content::user(text)).await?,
                },
                Line::Cleared => self.note("Ctrl-D leaves; /help shows what else you can type.")?,
                Line::End => return Ok(()),
            }
        }
    }

    /// Sends a message. A failed turn ends a pipe, and not a conversation.
    async fn say(&mut self, content: Content) -> anyhow::Result<()> {
        let mut next = Some(content);
        while let Some(content) = next.take() {
            let cancel = CancellationToken::new();
            let watching = watch_for_interrupt(cancel.clone());
            let sent = self.conversation.send(content, &self.view, cancel).await;
            watching.abort();
            match sent {
                Ok(()) => {}
                Err(error) if !self.interactive => return Err(error),
                Err(error) if is_cancelled(&error) => self.note("stopped; the conversation goes on")?,
                Err(error) => self.note(&self.style.red(sentence(&error)))?,
            }
            next = self.ask().await?;
        }
        Ok(())
    }

    /// Puts the first question that waits to the person; the answer is the next message.
    async fn ask(&mut self) -> anyhow::Result<Option<Content>> {
        let Some(question) = self.conversation.questions().await?.into_iter().next() else { return Ok(None) };
        if !self.interactive {
            // Without anyone to ask the answer is no.
            return Ok(Some(answer(&question, false)));
        }
        writeln!(io::stdout().lock(), "{}", self.style.bold(wording(&question)))?;
        let confirmed = self.input.yes().await?;
        Ok(Some(answer(&question, confirmed)))
    }

    async fn obey(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Help => self.note(command::HELP),
            Command::Sessions => self.list().await,
            Command::New => {
                self.enter(mint_id());
                self.note("a new session")
            }
            Command::Resume(id) => self.resume(id).await,
            Command::Model(None) => self.note(&format!("the model is {}", self.conversation.app.model)),
            Command::Model(Some(name)) => self.switch(&name),
            Command::Unknown(word) => self.note(&format!("there is no {word}; /help shows what there is")),
            Command::Quit => Ok(()),
        }
    }

    async fn list(&self) -> anyhow::Result<()> {
        let app = &self.conversation.app.name;
        let rows = recent(&*self.conversation.store, app, &self.settings.user, 10).await?;
        if rows.is_empty() {
            return self.note("there are no sessions yet");
        }
        for row in rows {
            let here = if row.key.session == self.conversation.key.session_id { "›" } else { " " };
            writeln!(io::stdout().lock(), "{here} {}", sessions::line(&row))?;
        }
        self.note("/resume ID goes on with one of them")
    }

    /// Goes on with a session of which the beginning of the id is given.
    async fn resume(&mut self, id: String) -> anyhow::Result<()> {
        let app = self.conversation.app.name.clone();
        let rows = recent(&*self.conversation.store, &app, &self.settings.user, 1_000).await?;
        let found: Vec<_> = rows.into_iter().filter(|row| row.key.session.starts_with(&id)).collect();
        match found.as_slice() {
            [row] => {
                self.enter(row.key.session.clone());
                let title = row.title.as_deref().unwrap_or("nothing said yet");
                self.note(&format!("going on with: {}", one_line(title, 60)))
            }
            [] => self.note(&format!("there is no session that begins with {id}; /sessions shows them")),
            _ => self.note(&format!("several sessions begin with {id}; write more of it")),
        }
    }

    fn enter(&mut self, session: String) {
        let key = &self.conversation.key;
        self.conversation.key = SessionKey::new(&key.app_name, &key.user_id, session);
    }

    fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        let store = Arc::clone(&self.conversation.store);
        match wiring::app(self.settings, store, self.app.as_deref(), Some(name)) {
            Ok(app) => {
                self.conversation.app = app;
                self.note(&format!("the model is {name} from here on; the conversation stays"))
            }
            Err(error) => self.note(&self.style.red(sentence(&error))),
        }
    }

    fn note(&self, text: &str) -> anyhow::Result<()> {
        let text = format!("{}\n", self.style.dim(text));
        if self.interactive {
            io::stdout().lock().write_all(text.as_bytes())?;
        } else {
            io::stderr().lock().write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

fn wording(question: &Question) -> String {
    let args = question.call.part.call().map(|call| serde_json::to_string(&call.args).unwrap_or_default());
    format!("May {} run with {}? [y/N]", question.call.name(), one_line(&args.unwrap_or_default(), 400))
}

fn is_cancelled(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<RunError>(), Some(RunError::Cancelled))
}

fn watch_for_interrupt(cancel: CancellationToken) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel();
        }
    })
}
