//! What a person sees. Nothing that a model or a tool says can steer the terminal.

use adk::event::Event;
use std::{
    io::{self, Write},
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

/// Says what went wrong, in one sentence, with its causes.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    });
    if broken_pipe {
        // Whoever read our output has had enough.
        return ExitCode::SUCCESS;
    }
    let causes: Vec<String> = error.chain().map(|cause| printable(&cause.to_string())).collect();
    let mut said: Vec<&str> = Vec::new();
    for cause in &causes {
        if !said.iter().any(|earlier| earlier.contains(cause.as_str())) {
            said.push(cause);
        }
    }
    let _ = writeln!(io::stderr(), "lango: {}", said.join(": "));
    ExitCode::FAILURE
}

/// Text without what could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let harmless = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    text.chars().map(|letter| if harmless(letter) { letter } else { '\u{fffd}' }).collect()
}

/// The output of one run.
pub(crate) struct Screen {
    json: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The event whose pieces have been printed.
    streaming: Option<String>,
    at_line_start: bool,
    failed: Option<io::Error>,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, inner: Mutex::new(Inner { at_line_start: true, ..Inner::default() }) }
    }

    pub(crate) fn show(&self, event: &Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = if self.json { show_json(event) } else { inner.show(event) };
        if let Err(error) = shown {
            inner.failed.get_or_insert(error);
        }
    }

    /// Ends the last line, and says how to go on.
    pub(crate) fn end(&self, session: &str) {
        if self.json {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = inner.end_line();
        if let Err(error) = ended {
            inner.failed.get_or_insert(error);
        }
        let _ = writeln!(io::stderr(), "(session {session})");
    }

    /// The first failure to write, if there was one.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).failed.take().map_or(Ok(()), Err)
    }
}

fn show_json(event: &Event) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    out.write_all(b"\n")?;
    out.flush()
}

impl Inner {
    fn show(&mut self, event: &Event) -> io::Result<()> {
        let streamed = self.streaming.as_deref() == Some(event.id.as_str());
        if event.is_partial() && !streamed {
            self.streaming = Some(event.id.clone());
        }
        for part in event.content.iter().flat_map(|content| &content.parts) {
            if let Some(call) = part.call() {
                let args = serde_json::to_string(&call.args).unwrap_or_default();
                self.line(&format!("→ {}({args})", call.name))?;
            } else if let Some(response) = part.response() {
                let answer = serde_json::to_string(&response.response).unwrap_or_default();
                self.line(&format!("← {}: {answer}", response.name))?;
            } else if let Some(text) = part.as_text().filter(|_| !part.is_thought())
                && (event.is_partial() || !streamed)
            {
                self.text(text)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(io::stderr(), "{}", printable(line))
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(printable(text).as_bytes())?;
        self.at_line_start = text.ends_with('\n') || (text.is_empty() && self.at_line_start);
        out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if !self.at_line_start {
            self.at_line_start = true;
            io::stdout().lock().write_all(b"\n")?;
        }
        Ok(())
    }
}
