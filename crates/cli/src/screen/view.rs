//! A turn as it happens: text as it streams, calls as they run, thoughts dimmed, tokens at the end.

use super::{
    Spent, Style, glimpse, json,
    overlap::{Overlap, OverlapPiece},
    printable,
    waiting::Waiting,
    width, width_of,
};
use crate::config::Models;
use adk::{
    content::{Content, Part},
    event::Event,
    pending::REQUEST_CONFIRMATION,
    progress::CallProgress,
};
use anyhow::anyhow;
use bridge::model::Notice;
use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

/// How much of a call or of its answer is shown where there is no terminal that says how wide it is.
const GLIMPSE: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything on standard output, for a person.
    Talk,
    /// The answer on standard output, the rest on standard error, for a pipe.
    Answer,
    /// Events as JSON, for a program.
    Json,
}

/// Shows the events of turns. Writing never fails in the middle of a turn: the first failure is kept for the end.
pub(crate) struct View {
    mode: Mode,
    style: Style,
    models: Models,
    progress: Mutex<ViewState>,
}

#[derive(Default)]
struct ViewState {
    /// The event whose pieces are on the screen.
    streaming: Option<String>,
    /// Whether the line has begun, and with a thought.
    in_line: bool,
    in_thought: bool,
    waiting: Waiting,
    overlap: Overlap,
    spent: Spent,
    /// What the model said instead of an answer.
    refused: Option<String>,
    failed: Option<io::Error>,
}

impl View {
    pub(crate) fn new(mode: Mode, style: Style, models: Models) -> Self {
        Self { mode, style, models, progress: Mutex::default() }
    }

    pub(crate) fn show(&self, event: &Event) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = match self.mode {
            Mode::Json => show_json(event),
            Mode::Talk | Mode::Answer => self.show_event(&mut progress, event),
        };
        if let Err(error) = shown {
            progress.failed.get_or_insert(error);
        }
        if !event.is_partial() {
            progress.refused.clone_from(&event.error_message);
        }
    }

    /// Says something in the middle of a turn, beside the answer.
    pub(crate) fn note(&self, text: &str) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let line_ended = match self.mode {
            Mode::Talk => self.end_line(&mut progress),
            // A pipe gets the answer as one text.
            Mode::Answer | Mode::Json => Ok(()),
        };
        if let Err(error) = line_ended.and_then(|()| self.aside(&printable(text))) {
            progress.failed.get_or_insert(error);
        }
    }

    /// Ends the turn on the screen, and says how it ended for whoever asked: a turn may be whole and still have no answer.
    pub(crate) fn ended(&self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let refused = self.end_turn();
        result?;
        refused?.map_or(Ok(()), |reason| Err(anyhow!(reason)))
    }

    /// The last line, and the tokens that the turn took. Answers with what the model said instead of an answer.
    fn end_turn(&self) -> io::Result<Option<String>> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = std::mem::take(&mut progress.spent);
        if let Some(error) = progress.failed.take() {
            return Err(error);
        }
        self.end_waiting(&mut progress)?;
        self.end_line(&mut progress)?;
        progress.streaming = None;
        progress.overlap.clear();
        if self.mode == Mode::Talk && !spent.is_nothing() {
            self.aside(&spent.to_string())?;
        }
        Ok(progress.refused.take())
    }

    fn show_event(&self, progress: &mut ViewState, event: &Event) -> io::Result<()> {
        if let Some(notice) = Notice::from_event(event).filter(|_| event.is_partial()) {
            return self.notice(progress, &notice);
        }
        if let Some(said) = CallProgress::of(event) {
            return self.call_progress(progress, &said);
        }
        self.end_waiting(progress)?;
        let streamed = progress.streaming.as_deref() == Some(event.id.as_str());
        if event.content.is_some() && !streamed {
            progress.overlap.begin();
        }
        if event.is_partial() && !streamed {
            progress.streaming = Some(event.id.clone());
        }
        for part in event.content.iter().flat_map(|content| &content.parts).filter(|part| !is_question(part))
        {
            if let Some(line) = glimpse(part, width().unwrap_or(GLIMPSE)) {
                self.end_line(progress)?;
                self.aside(&line)?;
            } else if let Some(text) = part.as_text().filter(|_| event.is_partial() || !streamed) {
                self.text_or_rest(progress, text, part.is_thought())?;
            }
        }
        if !event.is_partial() {
            let stored = event.content.as_ref().filter(|_| event.is_interrupted_answer());
            progress.overlap.stored(stored.map(Content::text).as_deref());
        }
        progress.spent += Spent::of(event, &self.models).unwrap_or_default();
        Ok(())
    }

    fn notice(&self, progress: &mut ViewState, notice: &Notice) -> io::Result<()> {
        self.end_line(progress)?;
        let (waiting, style) = (&mut progress.waiting, self.style);
        match self.mode {
            Mode::Talk => waiting.show(&mut io::stdout().lock(), notice, style, width()),
            Mode::Answer | Mode::Json => {
                waiting.show(&mut io::stderr().lock(), notice, style, width_of(io::stderr()))
            }
        }
    }

    fn call_progress(&self, progress: &mut ViewState, said: &CallProgress) -> io::Result<()> {
        self.end_line(progress)?;
        let (waiting, style) = (&mut progress.waiting, self.style);
        match self.mode {
            Mode::Talk => waiting.show_progress(&mut io::stdout().lock(), said, style, width()),
            Mode::Answer | Mode::Json => {
                waiting.show_progress(&mut io::stderr().lock(), said, style, width_of(io::stderr()))
            }
        }
    }

    fn end_waiting(&self, progress: &mut ViewState) -> io::Result<()> {
        match self.mode {
            Mode::Talk => progress.waiting.clear(&mut io::stdout().lock()),
            Mode::Answer | Mode::Json => progress.waiting.clear(&mut io::stderr().lock()),
        }
    }

    /// Shows a text without the words that are on the screen already.
    fn text_or_rest(&self, progress: &mut ViewState, text: &str, thought: bool) -> io::Result<()> {
        if thought {
            return self.text(progress, text, true);
        }
        match progress.overlap.take(text) {
            OverlapPiece::Goes(new) => self.text(progress, &new, false),
            OverlapPiece::Differs(text) => {
                self.end_line(progress)?;
                self.aside(
                    "[the last words were lost when the server stopped; the answer goes on before them]",
                )?;
                self.text(progress, &text, false)
            }
        }
    }

    fn text(&self, progress: &mut ViewState, text: &str, thought: bool) -> io::Result<()> {
        if thought && self.mode == Mode::Answer {
            return Ok(());
        }
        if progress.in_line && progress.in_thought != thought {
            self.end_line(progress)?;
        }
        let safe = printable(text);
        let mut out = io::stdout().lock();
        out.write_all(if thought { self.style.dim(&safe) } else { safe }.as_bytes())?;
        if !text.is_empty() {
            progress.in_line = !text.ends_with('\n');
            progress.in_thought = thought;
        }
        out.flush()
    }

    fn end_line(&self, progress: &mut ViewState) -> io::Result<()> {
        if self.mode != Mode::Json && std::mem::take(&mut progress.in_line) {
            io::stdout().lock().write_all(b"\n")?;
        }
        Ok(())
    }

    /// A line that is not part of the answer.
    fn aside(&self, line: &str) -> io::Result<()> {
        let line = format!("{}\n", self.style.dim(line));
        match self.mode {
            Mode::Talk => io::stdout().lock().write_all(line.as_bytes()),
            Mode::Answer | Mode::Json => io::stderr().lock().write_all(line.as_bytes()),
        }
    }
}

/// A question to the person is put by whoever can take the answer.
fn is_question(part: &Part) -> bool {
    let called = part.call().map(|call| &call.name).or(part.response().map(|response| &response.name));
    called.is_some_and(|name| name == REQUEST_CONFIRMATION)
}

fn show_json(event: &Event) -> io::Result<()> {
    let line = json(event)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
