//! Renders the events of a turn: streamed text, calls and results, dimmed thoughts, and the usage at the end.

use super::{
    ModelUsage, Style, json,
    overlap::{Overlap, OverlapPiece},
    printable,
    sources::SourceList,
    status_line::StatusLine,
    summarize_part, width, width_of,
};
use crate::config::Models;
use adk::{
    content::{Content, Part},
    event::Event,
    notes::AWAITING_INPUT,
    pending::is_question_name,
    progress::CallProgress,
};
use anyhow::anyhow;
use bridge::{
    agent::collect::{NewText, discards_answer},
    model::Notice,
};
use lock::LockExt;
use serde_json::Value;
use std::{
    io::{self, Write},
    sync::Mutex,
};

/// The length of a summary line if standard output is not a terminal.
const DEFAULT_WIDTH: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything on standard output, for a terminal.
    Chat,
    /// The answer on standard output, the rest on standard error, for a pipe.
    Answer,
    /// Events as JSON lines, for a program.
    Json,
}

/// Renders the events of turns. A failed write does not end a turn: the first error is returned at its end.
pub(crate) struct View {
    mode: Mode,
    style: Style,
    models: Models,
    /// Whether text is printed only when it is certain to be part of the answer.
    holds_text: bool,
    state: Mutex<ViewState>,
}

#[derive(Default)]
struct ViewState {
    new_text: NewText,
    /// The text of an answer that may be discarded.
    held: String,
    /// Whether the current line has text, and whether that is a thought.
    in_line: bool,
    in_thought: bool,
    status_line: StatusLine,
    overlap: Overlap,
    usage: ModelUsage,
    /// The sources of the answers, printed at the end of the turn.
    sources: SourceList,
    /// The error message of the last final event.
    error_message: Option<String>,
    write_error: Option<io::Error>,
}

impl View {
    pub(crate) fn new(mode: Mode, style: Style, models: Models) -> Self {
        Self { mode, style, models, holds_text: false, state: Mutex::default() }
    }

    /// Prints the text of an answer only when no correction can discard it, for a reader that cannot take words back.
    #[must_use]
    pub(crate) fn holding_text(self, holds_text: bool) -> Self {
        Self { holds_text, ..self }
    }

    pub(crate) fn show(&self, event: &Event) {
        let mut state = self.state.locked();
        let written = match self.mode {
            Mode::Json => show_json(event),
            Mode::Chat | Mode::Answer => self.show_event(&mut state, event),
        };
        if let Err(error) = written {
            state.write_error.get_or_insert(error);
        }
        if !event.is_partial() {
            state.error_message.clone_from(&event.error_message);
        }
    }

    /// Prints a notice during a turn.
    pub(crate) fn note(&self, text: &str) {
        let mut state = self.state.locked();
        let line_ended = match self.mode {
            Mode::Chat => self.end_line(&mut state),
            // A pipe gets the answer without inserted line ends.
            Mode::Answer | Mode::Json => Ok(()),
        };
        if let Err(error) = line_ended.and_then(|()| self.note_line(&printable(text))) {
            state.write_error.get_or_insert(error);
        }
    }

    /// Ends the turn on the screen. Fails if the turn failed, or if it completed with an error of the model instead of an answer.
    pub(crate) fn finish(&self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let error_message = self.end_turn();
        result?;
        error_message?.map_or(Ok(()), |message| Err(anyhow!(message)))
    }

    /// Ends the last line and prints the usage of the turn. Returns the error message of the model, if any.
    fn end_turn(&self) -> io::Result<Option<String>> {
        let mut state = self.state.locked();
        let usage = std::mem::take(&mut state.usage);
        if let Some(error) = state.write_error.take() {
            return Err(error);
        }
        self.clear_status(&mut state)?;
        self.end_line(&mut state)?;
        release(&mut state)?;
        state.new_text = NewText::default();
        state.overlap.clear();
        for line in state.sources.take_lines() {
            self.note_line(&line)?;
        }
        if self.mode == Mode::Chat && !usage.is_zero() {
            self.note_line(&usage.to_string())?;
        }
        Ok(state.error_message.take())
    }

    fn show_event(&self, state: &mut ViewState, event: &Event) -> io::Result<()> {
        if let Some(notice) = Notice::from_event(event).filter(|_| event.is_partial()) {
            return self.notice(state, &notice);
        }
        if let Some(progress) = CallProgress::of(event) {
            return self.call_progress(state, &progress);
        }
        self.clear_status(state)?;
        if discards_answer(event) {
            state.held.clear();
            state.in_line &= !self.holds_text;
        } else if event.responses().next().is_some() {
            release(state)?;
        }
        if event.content.is_some() && !state.new_text.has_begun(event) {
            state.overlap.begin();
        }
        let is_hidden = |part: &&Part| is_question(part) || is_placeholder(event, part);
        for part in event.content.iter().flat_map(|content| &content.parts).filter(|part| !is_hidden(part)) {
            if let Some(line) = summarize_part(part, width().unwrap_or(DEFAULT_WIDTH)) {
                self.end_line(state)?;
                self.note_line(&line)?;
            } else if let Some(text) = part.as_text().filter(|_| state.new_text.is_new(event, part)) {
                self.new_text(state, text, part.is_thought())?;
            }
        }
        if !event.is_partial() {
            let stored = event.content.as_ref().filter(|_| event.is_interrupted_answer());
            state.overlap.stored(stored.map(Content::text).as_deref());
        }
        if !event.is_partial() {
            state.sources.add(event);
        }
        state.usage += ModelUsage::of(event, &self.models).unwrap_or_default();
        Ok(())
    }

    fn notice(&self, state: &mut ViewState, notice: &Notice) -> io::Result<()> {
        self.end_line(state)?;
        let (status_line, style) = (&mut state.status_line, self.style);
        match self.mode {
            Mode::Chat => status_line.show(&mut io::stdout().lock(), notice, style, width()),
            Mode::Answer | Mode::Json => {
                status_line.show(&mut io::stderr().lock(), notice, style, width_of(io::stderr()))
            }
        }
    }

    fn call_progress(&self, state: &mut ViewState, progress: &CallProgress) -> io::Result<()> {
        self.end_line(state)?;
        let (status_line, style) = (&mut state.status_line, self.style);
        match self.mode {
            Mode::Chat => status_line.show_progress(&mut io::stdout().lock(), progress, style, width()),
            Mode::Answer | Mode::Json => {
                status_line.show_progress(&mut io::stderr().lock(), progress, style, width_of(io::stderr()))
            }
        }
    }

    fn clear_status(&self, state: &mut ViewState) -> io::Result<()> {
        match self.mode {
            Mode::Chat => state.status_line.clear(&mut io::stdout().lock()),
            Mode::Answer | Mode::Json => state.status_line.clear(&mut io::stderr().lock()),
        }
    }

    /// Shows the part of a text that is not on the screen yet.
    fn new_text(&self, state: &mut ViewState, text: &str, thought: bool) -> io::Result<()> {
        if thought {
            return self.text(state, text, true);
        }
        match state.overlap.take(text) {
            OverlapPiece::New(new) => self.text(state, &new, false),
            OverlapPiece::Differs(text) => {
                self.end_line(state)?;
                self.note_line(
                    "[the last words were lost when the server stopped; the answer continues before them]",
                )?;
                self.text(state, &text, false)
            }
        }
    }

    fn text(&self, state: &mut ViewState, text: &str, thought: bool) -> io::Result<()> {
        if thought && self.mode == Mode::Answer {
            return Ok(());
        }
        if state.in_line && state.in_thought != thought {
            self.end_line(state)?;
        }
        let safe = printable(text);
        if !text.is_empty() {
            state.in_line = !text.ends_with('\n');
            state.in_thought = thought;
        }
        if self.holds_text {
            state.held.push_str(&safe);
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(if thought { self.style.dim(&safe) } else { safe }.as_bytes())?;
        out.flush()
    }

    fn end_line(&self, state: &mut ViewState) -> io::Result<()> {
        if self.mode == Mode::Json || !std::mem::take(&mut state.in_line) {
            return Ok(());
        }
        if self.holds_text {
            state.held.push('\n');
            return Ok(());
        }
        io::stdout().lock().write_all(b"\n")
    }

    /// A line that is not part of the answer.
    fn note_line(&self, line: &str) -> io::Result<()> {
        let line = format!("{}\n", self.style.dim(line));
        match self.mode {
            Mode::Chat => io::stdout().lock().write_all(line.as_bytes()),
            Mode::Answer | Mode::Json => io::stderr().lock().write_all(line.as_bytes()),
        }
    }
}

/// Prints the held text.
fn release(state: &mut ViewState) -> io::Result<()> {
    let held = std::mem::take(&mut state.held);
    let mut out = io::stdout().lock();
    out.write_all(held.as_bytes())?;
    out.flush()
}

/// Whether the part is a question to the user or its answer. The command that can read the answer prints the question.
fn is_question(part: &Part) -> bool {
    let called = part.call().map(|call| &call.name).or(part.response().map(|response| &response.name));
    called.is_some_and(|name| is_question_name(name))
}

/// Whether the part is the provisional result of a call that waits for an approval or an answer.
pub(crate) fn is_placeholder(event: &Event, part: &Part) -> bool {
    let asked = &event.actions.requested_tool_confirmations;
    part.response().is_some_and(|response| {
        let error = response.error().and_then(Value::as_str);
        asked.contains_key(&response.id_or_name()) || error == Some(AWAITING_INPUT)
    })
}

fn show_json(event: &Event) -> io::Result<()> {
    let line = json(event)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
