//! `lango chat`: a conversation in the terminal, or line by line in a pipe.

mod command;
mod input;
mod peer;

use super::{
    ask::{self, Reply},
    interrupt::Interrupts,
    talk::new_id,
};
use crate::{
    args::{ChatArgs, ConversationArgs},
    config::Settings,
    remote::Address,
    screen::{Mode, Style, View, one_line, printable, sentence},
    wiring::Wanted,
};
use adk::{content::Content, error::RunError, pending::Question};
use command::SlashCommand;
use input::{Input, InputLine};
use peer::Peer;
use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow::{self, Break, Continue},
};

/// What the model of the first screen can do, told so that nobody takes it for more.
const DEMO: &str = "\
demo is a small set of rules, not a language model: it tells the time,
calculates, and reads, lists and searches the files in this folder.";

/// How much of an interrupted answer is shown when its session is taken up, in characters.
const INTERRUPTED_SHOWN: usize = 2_000;

pub(crate) async fn chat(settings: &Settings, chat: ChatArgs) -> anyhow::Result<()> {
    let interactive = ask::is_attended(&io::stdout());
    let mut interrupts = Interrupts::listen()?;
    let peer = interrupts.unless(Peer::open(settings, &chat, interactive)).await?;
    let style = Style::new(settings.color && io::stdout().is_terminal());
    let mode = if interactive { Mode::Talk } else { Mode::Answer };
    let mut chat = ChatSession {
        settings,
        talk: chat.talk,
        peer,
        server: chat.server,
        view: View::new(mode, style, settings.models.clone()),
        style,
        input: Input::open(interactive, &settings.history_file)?,
        interrupts,
        interactive,
        spoken: false,
    };
    if interactive {
        chat.greet()?;
    }
    let talked = chat.talk().await;
    chat.peer.close().await;
    talked?;
    chat.leave()
}

struct ChatSession<'a> {
    settings: &'a Settings,
    /// What was asked for.
    talk: ConversationArgs,
    peer: Peer,
    server: Option<Address>,
    view: View,
    style: Style,
    input: Input,
    interrupts: Interrupts,
    interactive: bool,
    /// Whether anything was said in this session.
    spoken: bool,
}

impl ChatSession<'_> {
    fn greet(&self) -> anyhow::Result<()> {
        let (lango, whom) = (self.style.bold("lango"), self.peer.introduction());
        writeln!(io::stdout(), "{lango} {} · {whom}", env!("CARGO_PKG_VERSION"))?;
        if let Some(note) = self.peer.note() {
            self.note(note)?;
        }
        if self.peer.is_demo() {
            self.note(DEMO)?;
        }
        self.note("/help shows what else you can type; Ctrl-C stops an answer, Ctrl-D leaves.")
    }

    fn leave(&self) -> anyhow::Result<()> {
        if self.interactive && self.spoken {
            let server =
                self.server.as_ref().map(|address| format!(" --server {address}")).unwrap_or_default();
            self.note(&format!("lango chat{server} --continue goes on from here"))?;
        }
        Ok(())
    }

    async fn talk(&mut self) -> anyhow::Result<()> {
        if self.take_up().await?.is_break() {
            return Ok(());
        }
        loop {
            let flow = match self.input.line().await? {
                InputLine::Said(text) if text.trim().is_empty() => Continue(()),
                InputLine::Said(text) => match SlashCommand::parse(&text) {
                    Some(command) => self.obey(command).await?,
                    None => self.say(Content::user(text)).await?,
                },
                InputLine::Cleared => {
                    self.note("Ctrl-D leaves; /help shows what else you can type.")?;
                    Continue(())
                }
                InputLine::End => Break(()),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// Where an older session stands: how it began, and what it waits for.
    async fn take_up(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let Some(title) = self.peer.title().await?.filter(|_| self.interactive) else {
            return Ok(Continue(()));
        };
        self.spoken = true;
        self.note(&format!("going on with: {}", one_line(&title, 60)))?;
        self.take_up_answer().await?;
        self.put_questions().await
    }

    /// Continues an answer that a process left when it died, or shows how far the last one came.
    async fn take_up_answer(&mut self) -> anyhow::Result<()> {
        let (peer, view) = (&self.peer, &self.view);
        let continued = self.interrupts.cancel(|cancel| peer.continue_interrupted(view, cancel)).await;
        match continued {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return self.tell_failure(error),
        }
        if let Some(said) = self.peer.interrupted_answer().await? {
            writeln!(io::stdout(), "{}", printable(&end_of(&said, INTERRUPTED_SHOWN)))?;
            self.note("[interrupted]")?;
        }
        Ok(())
    }

    async fn say(&mut self, content: Content) -> anyhow::Result<ControlFlow<()>> {
        self.send(content).await?;
        self.put_questions().await
    }

    /// Sends a message. A failed turn ends a pipe, and not a conversation.
    async fn send(&mut self, content: Content) -> anyhow::Result<()> {
        self.spoken = true;
        let (peer, view) = (&self.peer, &self.view);
        match self.interrupts.cancel(|cancel| peer.send(content, view, cancel)).await {
            Ok(()) => Ok(()),
            Err(error) => self.tell_failure(error),
        }
    }

    fn tell_failure(&self, error: anyhow::Error) -> anyhow::Result<()> {
        match error {
            error if !self.interactive => Err(error),
            error if is_cancelled(&error) => self.note("stopped; the conversation goes on"),
            error => self.note(&self.style.red(sentence(&error))),
        }
    }

    /// Puts what waits for a person's word to the person, one after the other. Who leaves is asked again next time.
    async fn put_questions(&mut self) -> anyhow::Result<ControlFlow<()>> {
        while let Some(question) = self.peer.questions().await?.into_iter().next() {
            let Some(reply) = self.ask(&question).await? else { return Ok(Break(())) };
            self.send(ask::answer(&question, reply)).await?;
        }
        Ok(Continue(()))
    }

    /// A server asks, whoever it talks to; tools of this process know when nobody is there.
    async fn ask(&mut self, question: &Question) -> anyhow::Result<Option<Reply>> {
        if self.interactive {
            return ask::ask(question, &mut io::stdout(), self.style).await;
        }
        self.note(&ask::refusal(question))?;
        Ok(Some(Reply::No))
    }

    async fn obey(&mut self, command: SlashCommand) -> anyhow::Result<ControlFlow<()>> {
        match command {
            SlashCommand::Help => self.note(command::HELP)?,
            SlashCommand::Sessions => self.list().await?,
            SlashCommand::New => {
                self.enter(new_id());
                self.note("a new conversation; the old one is kept")?;
            }
            SlashCommand::Resume(id) => return self.resume(&id).await,
            SlashCommand::Model(None) => self.note(&self.peer.model())?,
            SlashCommand::Model(Some(name)) => self.switch(&name).await?,
            SlashCommand::Unknown(word) => self.note(&command::unknown(&word))?,
            SlashCommand::Quit => return Ok(Break(())),
        }
        Ok(Continue(()))
    }

    async fn list(&self) -> anyhow::Result<()> {
        let lines = self.peer.list().await?;
        if lines.is_empty() {
            return self.note("there are no sessions yet");
        }
        for line in lines {
            writeln!(io::stdout(), "{line}")?;
        }
        self.note("/resume ID goes on with one of them")
    }

    /// Goes on with a session of which the beginning of the id is given.
    async fn resume(&mut self, id: &str) -> anyhow::Result<ControlFlow<()>> {
        let mut ids = self.peer.named(id).await?.into_iter();
        match (ids.next(), ids.next()) {
            (Some(only), None) => {
                self.enter(only);
                return self.take_up().await;
            }
            (None, _) => {
                self.note(&format!("there is no session that begins with {id}; /sessions shows them"))?;
            }
            (Some(_), Some(_)) => {
                self.note(&format!("several sessions begin with {id}; write more of it"))?;
            }
        }
        Ok(Continue(()))
    }

    fn enter(&mut self, session: String) {
        self.peer.enter(session);
        self.spoken = false;
    }

    async fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        let wanted = Wanted { model: Some(name), attended: self.interactive, ..self.talk.wanted() };
        match self.peer.switch(self.settings, wanted).await {
            Ok(()) => self.note(&format!("the model is {name} from here on; the conversation stays")),
            Err(error) => self.note(&self.style.red(sentence(&error))),
        }
    }

    fn note(&self, text: &str) -> anyhow::Result<()> {
        // InputLine by line, so that nothing is left dimmed when only a part of it is seen.
        let lines: Vec<String> = text.lines().map(|line| self.style.dim(line)).collect();
        let lines = lines.join("\n") + "\n";
        if self.interactive {
            io::stdout().write_all(lines.as_bytes())?;
        } else {
            io::stderr().write_all(lines.as_bytes())?;
        }
        Ok(())
    }
}

/// The last so many characters of a text.
fn end_of(text: &str, most: usize) -> String {
    match text.char_indices().rev().nth(most) {
        Some((at, letter)) => format!("…{}", &text[at + letter.len_utf8()..]),
        None => text.to_owned(),
    }
}

fn is_cancelled(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<RunError>(), Some(RunError::Cancelled))
}
