//! Input lines: from a terminal, with editing and a history, or from a pipe.

use crate::commands::run::utf8;
use anyhow::Context;
use rustyline::{Config, DefaultEditor, error::ReadlineError};
use std::{
    io::{self, BufRead},
    path::{Path, PathBuf},
};

const PROMPT: &str = "› ";
const CONTINUATION_PROMPT: &str = "… ";
/// The longest message that is stored in the history, in bytes. Longer ones were pasted.
const MAX_HISTORY_ENTRY: usize = 4_096;

pub(super) enum InputLine {
    Text(String),
    /// Ctrl-C at the prompt.
    Cleared,
    End,
}

pub(super) enum Input {
    /// `None` while a blocking thread has the editor to read a line.
    Terminal(Option<Box<Terminal>>),
    Pipe,
}

pub(super) struct Terminal {
    editor: DefaultEditor,
    history: PathBuf,
}

impl Input {
    pub(super) fn open(interactive: bool, history: &Path) -> anyhow::Result<Self> {
        if !interactive {
            return Ok(Self::Pipe);
        }
        let config = Config::builder().max_history_size(1_000)?.build();
        let mut editor = DefaultEditor::with_config(config).context("the terminal cannot be used")?;
        // The history file need not exist.
        let _ = editor.load_history(history);
        Ok(Self::Terminal(Some(Box::new(Terminal { editor, history: history.to_path_buf() }))))
    }

    /// The next message. A line that ends with a backslash continues on the next one.
    pub(super) async fn line(&mut self) -> anyhow::Result<InputLine> {
        match self {
            Self::Pipe => blocking(read_piped).await,
            Self::Terminal(slot) => {
                let Some(mut terminal) = slot.take() else { return Ok(InputLine::End) };
                let (terminal, line) = blocking(move || {
                    let line = terminal.read();
                    Ok((terminal, line))
                })
                .await?;
                *slot = Some(terminal);
                line
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(read).await?
}

impl Terminal {
    fn read(&mut self) -> anyhow::Result<InputLine> {
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { PROMPT } else { CONTINUATION_PROMPT };
            match self.editor.readline(prompt) {
                Ok(line) => {
                    let Some(line) = line.strip_suffix('\\') else {
                        text.push_str(&line);
                        self.add_to_history(&text);
                        return Ok(InputLine::Text(text));
                    };
                    text.extend([line, "\n"]);
                }
                Err(ReadlineError::Interrupted) => return Ok(InputLine::Cleared),
                Err(ReadlineError::Eof) => return Ok(InputLine::End),
                Err(error) => return Err(error).context("the terminal cannot be read"),
            }
        }
    }

    /// Failures are ignored: the chat works without a history.
    fn add_to_history(&mut self, text: &str) {
        if text.len() <= MAX_HISTORY_ENTRY && matches!(self.editor.add_history_entry(text), Ok(true)) {
            let _ = self.editor.append_history(&self.history);
        }
    }
}

fn read_piped() -> anyhow::Result<InputLine> {
    let mut bytes = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        if input.read_until(b'\n', &mut bytes).context("standard input cannot be read")? == 0
            && bytes.is_empty()
        {
            return Ok(InputLine::End);
        }
        let ended = bytes.pop_if(|last| *last == b'\n').is_some();
        bytes.pop_if(|last| *last == b'\r');
        if ended && bytes.pop_if(|last| *last == b'\\').is_some() {
            bytes.push(b'\n');
            continue;
        }
        return utf8(bytes).map(InputLine::Text);
    }
}
