//! `lango chat`: a conversation on the terminal, or line by line through a pipe.

mod command;
mod input;
mod peer;
mod reports;

use super::{
    ask::{self, Reply},
    conversation::new_id,
    interrupt::Interrupts,
};
use crate::{
    args::{ChatArgs, ConversationArgs},
    config::Settings,
    remote::Address,
    screen::{Mode, Style, View, format_error, one_line, printable},
    wiring::PlanOptions,
};
use adk::{content::Content, error::RunError, pending::Question};
use anyhow::anyhow;
use command::SlashCommand;
use input::{Input, InputLine};
use peer::Peer;
use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow::{self, Break, Continue},
};
use tools::policy::ApprovalMode;

/// Shown with the demo model, which is not a language model.
const DEMO_NOTICE: &str = "\
demo is a small set of rules, not a language model: it tells the time,
calculates, and reads, lists and searches the files in this folder.";

/// How much of an interrupted answer is shown when its session is resumed, in characters.
const INTERRUPTED_LIMIT: usize = 2_000;

pub(crate) async fn chat(settings: &Settings, chat: ChatArgs) -> anyhow::Result<()> {
    let interactive = ask::is_attended(&io::stdout());
    let mut interrupts = Interrupts::listen()?;
    let peer = interrupts.or_cancelled(Peer::open(settings, &chat, interactive)).await?;
    let style = Style::new(settings.color && io::stdout().is_terminal());
    let mode = if interactive { Mode::Chat } else { Mode::Answer };
    let holds_text = !io::stdout().is_terminal() && peer.may_start_over();
    let mut chat = ChatSession {
        settings,
        args: chat.conversation,
        peer,
        server: chat.server,
        view: View::new(mode, style, settings.models.clone()).holding_text(holds_text),
        style,
        input: Input::open(interactive, &settings.history_file)?,
        interrupts,
        interactive,
        has_messages: false,
    };
    if interactive {
        chat.greet()?;
    }
    let result = chat.run().await;
    chat.peer.close().await;
    result?;
    chat.print_continue_hint()
}

struct ChatSession<'a> {
    settings: &'a Settings,
    args: ConversationArgs,
    peer: Peer,
    server: Option<Address>,
    view: View,
    style: Style,
    input: Input,
    interrupts: Interrupts,
    interactive: bool,
    /// Whether the session has messages.
    has_messages: bool,
}

impl ChatSession<'_> {
    fn greet(&self) -> anyhow::Result<()> {
        let (lango, peer) = (self.style.bold("lango"), self.peer.introduction());
        writeln!(io::stdout(), "{lango} {} · {peer}", env!("CARGO_PKG_VERSION"))?;
        if let Some(note) = self.peer.note() {
            self.note(note)?;
        }
        if self.peer.is_demo() {
            self.note(DEMO_NOTICE)?;
        }
        self.note("/help lists commands; Ctrl-C stops an answer, Ctrl-D exits.")
    }

    fn print_continue_hint(&self) -> anyhow::Result<()> {
        if self.interactive && self.has_messages {
            let server =
                self.server.as_ref().map(|address| format!(" --server {address}")).unwrap_or_default();
            self.note(&format!("to continue: lango chat{server} --continue"))?;
        }
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        if self.resume_session().await?.is_break() {
            return Ok(());
        }
        loop {
            let flow = match self.input.line().await? {
                InputLine::Text(text) if text.trim().is_empty() => Continue(()),
                InputLine::Text(text) => match SlashCommand::parse(&text) {
                    Some(command) => self.execute(command).await?,
                    None => self.send_message(Content::user(text)).await?,
                },
                InputLine::Cleared => {
                    self.note("Ctrl-D exits; /help lists commands.")?;
                    Continue(())
                }
                InputLine::End => Break(()),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// For an existing session, prints its title, continues or shows an interrupted answer, and asks open questions.
    async fn resume_session(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let Some(title) = self.peer.title().await?.filter(|_| self.interactive) else {
            return Ok(Continue(()));
        };
        self.has_messages = true;
        self.note(&format!("continuing: {}", one_line(&title, 60)))?;
        self.resume_answer().await?;
        self.ask_questions().await
    }

    /// Continues the runs of a dead process, or shows the stored part of an interrupted answer.
    async fn resume_answer(&mut self) -> anyhow::Result<()> {
        let (peer, view) = (&self.peer, &self.view);
        let continued = self.interrupts.cancellable(|cancel| peer.continue_interrupted(view, cancel)).await;
        match continued {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return self.report_failure(error),
        }
        if let Some(text) = self.peer.interrupted_answer().await? {
            writeln!(io::stdout(), "{}", printable(&tail(&text, INTERRUPTED_LIMIT)))?;
            self.note("[interrupted]")?;
        }
        Ok(())
    }

    async fn send_message(&mut self, content: Content) -> anyhow::Result<ControlFlow<()>> {
        self.send(content).await?;
        self.ask_questions().await
    }

    /// Sends a message and renders the turn. A failed turn ends the program only if the input is a pipe.
    async fn send(&mut self, content: Content) -> anyhow::Result<()> {
        self.has_messages = true;
        let (peer, view) = (&self.peer, &self.view);
        match self.interrupts.cancellable(|cancel| peer.send(content, view, cancel)).await {
            Ok(()) => Ok(()),
            Err(error) => self.report_failure(error),
        }
    }

    fn report_failure(&self, error: anyhow::Error) -> anyhow::Result<()> {
        match error {
            error if !self.interactive => Err(error),
            error if is_cancelled(&error) => self.note("stopped; the session can be continued"),
            error => self.note(&self.style.red(format_error(&error))),
        }
    }

    /// Asks the open questions in sequence.
    async fn ask_questions(&mut self) -> anyhow::Result<ControlFlow<()>> {
        while let Some(question) = self.peer.questions().await?.into_iter().next() {
            if self.peer.is_interrupted(&question) {
                self.note(ask::INTERRUPTED_QUESTION)?;
                self.send(ask::dismissal(&question)).await?;
                continue;
            }
            let reply = self.ask(&question).await?;
            self.send(ask::answer(&question, reply)).await?;
        }
        Ok(Continue(()))
    }

    /// In a pipe, rejects the question. In a pipe only a server can ask: tools of this process run unattended.
    async fn ask(&mut self, question: &Question) -> anyhow::Result<Reply> {
        if self.interactive {
            return ask::ask(question, &mut io::stdout(), self.style).await;
        }
        self.note(&ask::unattended_notice(question))?;
        Ok(Reply::No(None))
    }

    async fn execute(&mut self, command: SlashCommand) -> anyhow::Result<ControlFlow<()>> {
        match command {
            SlashCommand::Help => self.note(command::HELP)?,
            SlashCommand::Sessions => self.list().await?,
            SlashCommand::New => {
                self.select_session(new_id());
                self.note("new session; the previous one stays stored")?;
            }
            SlashCommand::Resume(id) => return self.resume(&id).await,
            SlashCommand::Model(None) => self.note(&self.peer.model())?,
            SlashCommand::Model(Some(name)) => self.switch_model(&name).await?,
            SlashCommand::Mode(None) => self.note(&self.peer.mode())?,
            SlashCommand::Mode(Some(name)) => self.switch_mode(&name).await?,
            SlashCommand::Context => self.report(self.peer.context().await)?,
            SlashCommand::Cost => self.report(self.peer.cost(self.settings).await)?,
            SlashCommand::Compact => self.report(self.peer.compact().await)?,
            SlashCommand::Unknown(word) => self.note(&command::unknown(&word))?,
            SlashCommand::Quit => return Ok(Break(())),
        }
        Ok(Continue(()))
    }

    /// Prints the answer of a command, or why there is none.
    fn report(&self, answer: anyhow::Result<String>) -> anyhow::Result<()> {
        match answer {
            Ok(text) => self.note(&text),
            Err(error) => self.note(&self.style.red(format_error(&error))),
        }
    }

    async fn list(&self) -> anyhow::Result<()> {
        let lines = self.peer.list().await?;
        if lines.is_empty() {
            return self.note("there are no sessions yet");
        }
        for line in lines {
            writeln!(io::stdout(), "{line}")?;
        }
        self.note("/resume ID continues one of them")
    }

    /// Resumes the only session whose id begins with `prefix`.
    async fn resume(&mut self, prefix: &str) -> anyhow::Result<ControlFlow<()>> {
        let mut ids = self.peer.session_ids(prefix).await?.into_iter();
        match (ids.next(), ids.next()) {
            (Some(only), None) => {
                self.select_session(only);
                return self.resume_session().await;
            }
            (None, _) => {
                self.note(&format!(
                    "there is no session whose id begins with {prefix}; /sessions lists them"
                ))?;
            }
            (Some(_), Some(_)) => {
                self.note(&format!("several session ids begin with {prefix}; type more characters"))?;
            }
        }
        Ok(Continue(()))
    }

    fn select_session(&mut self, session: String) {
        self.peer.select_session(session);
        self.has_messages = false;
    }

    async fn switch_model(&mut self, name: &str) -> anyhow::Result<()> {
        let options =
            PlanOptions { model: Some(name), attended: self.interactive, ..self.args.plan_options() };
        let options = PlanOptions { mode: self.peer.local_mode().or(options.mode), ..options };
        match self.peer.switch_model(self.settings, options).await {
            Ok(()) => self.note(&format!("switched to the model {name}; the session stays the same")),
            Err(error) => self.note(&self.style.red(format_error(&error))),
        }
    }

    async fn switch_mode(&mut self, name: &str) -> anyhow::Result<()> {
        let switched = match name.parse::<ApprovalMode>() {
            Ok(mode) => self.peer.switch_mode(mode).await,
            Err(unknown) => Err(anyhow!(unknown)),
        };
        match switched {
            Ok(note) => self.note(&note),
            Err(error) => self.note(&self.style.red(format_error(&error))),
        }
    }

    fn note(&self, text: &str) -> anyhow::Result<()> {
        // Styled line by line, so that no style is left open if only a part is shown.
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

/// The last `max` characters of a text, after an ellipsis if it is longer.
fn tail(text: &str, max: usize) -> String {
    match text.char_indices().rev().nth(max) {
        Some((at, c)) => format!("…{}", &text[at + c.len_utf8()..]),
        None => text.to_owned(),
    }
}

fn is_cancelled(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<RunError>(), Some(RunError::Cancelled))
}
