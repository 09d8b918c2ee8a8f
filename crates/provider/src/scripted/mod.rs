//! A model that replays a script: the same request always gets the same answer, offline.
//!
//! The rules of the YAML file are tried from top to bottom; the first that fits the request's last message answers.
//! Text leaves in pieces of one word, as a real model's does.

mod failure;
mod prompt;
mod script;
mod template;

use crate::{Done, Error, EventStream, Finish, Provider, Request, StreamEvent, ToolCall, split_words};
use futures::{StreamExt as _, future, stream};
use prompt::Prompt;
use script::{Call, Piece, Script, Step};
use std::{path::Path, time::Duration};

#[derive(Debug)]
pub struct Scripted {
    /// How errors call the script.
    file: String,
    script: Script,
}

impl Scripted {
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let file = path.as_ref().display().to_string();
        match std::fs::read_to_string(path.as_ref()) {
            Ok(yaml) => Self::from_str(file, &yaml),
            Err(error) => Err(Error::Script { file, message: format!("cannot be read: {error}") }),
        }
    }

    /// A script that is not in a file; `name` stands for it in errors.
    pub fn from_str(name: impl Into<String>, yaml: &str) -> Result<Self, Error> {
        let file = name.into();
        match serde_saphyr::from_str(yaml) {
            Ok(script) => Ok(Self { file, script }),
            Err(error) => Err(Error::Script { file, message: error.without_snippet().to_string() }),
        }
    }

    /// What the script calls itself.
    pub fn model(&self) -> Option<&str> {
        self.script.model.as_deref()
    }

    fn play(&self, request: &Request) -> Result<Vec<Beat>, Error> {
        let prompt = Prompt::of(&request.messages);
        let rule = self
            .script
            .rules
            .iter()
            .find(|rule| prompt.fits(&rule.when))
            .ok_or_else(|| self.complain(format!("no rule answers {}", prompt.describe())))?;
        let mut beats = Vec::new();
        let mut usage = self.script.usage;
        for step in &rule.reply {
            match step {
                Step::Text(piece) => self.say(&prompt, piece, StreamEvent::text_piece, &mut beats)?,
                Step::Thought(piece) => self.say(&prompt, piece, StreamEvent::thought_piece, &mut beats)?,
                Step::Call(call) => beats.push(Beat::Event(StreamEvent::ToolCall(self.call(&prompt, call)?))),
                Step::Usage(counts) => usage = Some(*counts),
                Step::DelayMs(millis) => beats.push(Beat::Wait(Duration::from_millis(*millis))),
                Step::Hang => return Ok(with(beats, Beat::Hang)),
                Step::Fail(failure) => {
                    return Ok(with(beats, Beat::Event(StreamEvent::Error(failure.error()))));
                }
                // A refusal carries neither a version nor usage, as with the providers that send one.
                Step::Refuse(refusal) => {
                    let finish =
                        Finish::Refused { code: refusal.code.clone(), message: refusal.message.clone() };
                    return Ok(with(beats, Beat::done(finish, None)));
                }
                Step::Length => return Ok(self.end(beats, usage, Finish::Length)),
            }
        }
        Ok(self.end(beats, usage, Finish::Stop))
    }

    fn say(
        &self,
        prompt: &Prompt<'_>,
        piece: &Piece,
        event: fn(String, Option<String>) -> StreamEvent,
        beats: &mut Vec<Beat>,
    ) -> Result<(), Error> {
        let text = template::fill(piece.text(), prompt).map_err(|message| self.complain(message))?;
        let mut words = split_words(&text).peekable();
        while let Some(word) = words.next() {
            let signature = if words.peek().is_none() { piece.signature() } else { None };
            beats.push(Beat::Event(event(word.to_owned(), signature)));
            if let Some(millis) = self.script.word_delay_ms {
                beats.push(Beat::Wait(Duration::from_millis(millis)));
            }
        }
        Ok(())
    }

    fn call(&self, prompt: &Prompt<'_>, call: &Call) -> Result<ToolCall, Error> {
        let args = call
            .args
            .iter()
            .map(|(key, value)| Ok((key.clone(), template::fill_value(value, prompt)?)))
            .collect::<Result<_, String>>()
            .map_err(|message| self.complain(message))?;
        Ok(ToolCall {
            id: call.id.clone().unwrap_or_default(),
            name: call.name.clone(),
            args,
            signature: call.signature.clone(),
            malformed: None,
        })
    }

    fn end(&self, mut beats: Vec<Beat>, usage: Option<script::Counts>, finish: Finish) -> Vec<Beat> {
        beats.extend(usage.map(|counts| Beat::Event(StreamEvent::Usage(counts.into()))));
        with(beats, Beat::done(finish, self.script.model.clone()))
    }

    fn complain(&self, message: String) -> Error {
        Error::Script { file: self.file.clone(), message }
    }
}

impl Provider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn stream(&self, request: Request) -> EventStream {
        let beats = self.play(&request).unwrap_or_else(|error| vec![Beat::Event(StreamEvent::Error(error))]);
        stream::iter(beats).filter_map(Beat::act).boxed()
    }
}

/// A moment of an answer.
#[derive(Debug)]
enum Beat {
    Event(StreamEvent),
    Wait(Duration),
    /// Silence until the caller gives up.
    Hang,
}

impl Beat {
    fn done(finish: Finish, model_version: Option<String>) -> Self {
        Self::Event(StreamEvent::Done(Done { finish, model_version }))
    }

    async fn act(self) -> Option<StreamEvent> {
        match self {
            Self::Event(event) => Some(event),
            Self::Wait(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Self::Hang => future::pending().await,
        }
    }
}

fn with(mut beats: Vec<Beat>, last: Beat) -> Vec<Beat> {
    beats.push(last);
    beats
}

#[cfg(test)]
mod tests;
