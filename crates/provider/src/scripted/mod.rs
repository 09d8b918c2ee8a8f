//! A model that replays a script: the same request always gets the same answer, offline.
//!
//! The rules of the YAML file are tried from top to bottom; the first that fits the request's last message answers.
//! Text leaves in pieces of one word, as a real model's does.

mod failure;
mod prompt;
mod script;
mod template;

use crate::{
    Done, Error, FinishReason, ModelRequest, ModelStream, Provider, StreamEvent, ToolCall, split_words,
};
use futures::{StreamExt as _, future, stream};
use prompt::ScriptPrompt;
use script::{ModelScript, ScriptCall, ScriptStep, ScriptText};
use std::{path::Path, time::Duration};

#[derive(Debug)]
pub struct ScriptedProvider {
    /// How errors call the script.
    file: String,
    script: ModelScript,
}

impl ScriptedProvider {
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

    fn play(&self, request: &ModelRequest) -> Result<Vec<PlaybackStep>, Error> {
        let prompt = ScriptPrompt::of(&request.messages);
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
                ScriptStep::Text(piece) => self.say(&prompt, piece, StreamEvent::text_delta, &mut beats)?,
                ScriptStep::Thought(piece) => {
                    self.say(&prompt, piece, StreamEvent::thought_delta, &mut beats)?
                }
                ScriptStep::Call(call) => {
                    beats.push(PlaybackStep::Event(StreamEvent::ToolCall(self.call(&prompt, call)?)))
                }
                ScriptStep::Usage(counts) => usage = Some(*counts),
                ScriptStep::DelayMs(millis) => beats.push(PlaybackStep::Wait(Duration::from_millis(*millis))),
                ScriptStep::Hang => return Ok(with(beats, PlaybackStep::Hang)),
                ScriptStep::Fail(failure) => {
                    return Ok(with(beats, PlaybackStep::Event(StreamEvent::Error(failure.error()))));
                }
                // A refusal carries neither a version nor usage, as with the providers that send one.
                ScriptStep::Refuse(refusal) => {
                    let finish = FinishReason::Refused {
                        code: refusal.code.clone(),
                        message: refusal.message.clone(),
                    };
                    return Ok(with(beats, PlaybackStep::done(finish, None)));
                }
                ScriptStep::Length => return Ok(self.end(beats, usage, FinishReason::Length)),
            }
        }
        Ok(self.end(beats, usage, FinishReason::Stop))
    }

    fn say(
        &self,
        prompt: &ScriptPrompt<'_>,
        piece: &ScriptText,
        event: fn(String, Option<String>) -> StreamEvent,
        beats: &mut Vec<PlaybackStep>,
    ) -> Result<(), Error> {
        let text = template::fill(piece.text(), prompt).map_err(|message| self.complain(message))?;
        let mut words = split_words(&text).peekable();
        while let Some(word) = words.next() {
            let signature = if words.peek().is_none() { piece.signature() } else { None };
            beats.push(PlaybackStep::Event(event(word.to_owned(), signature)));
            if let Some(millis) = self.script.word_delay_ms {
                beats.push(PlaybackStep::Wait(Duration::from_millis(millis)));
            }
        }
        Ok(())
    }

    fn call(&self, prompt: &ScriptPrompt<'_>, call: &ScriptCall) -> Result<ToolCall, Error> {
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

    fn end(
        &self,
        mut beats: Vec<PlaybackStep>,
        usage: Option<script::ScriptUsage>,
        finish: FinishReason,
    ) -> Vec<PlaybackStep> {
        beats.extend(usage.map(|counts| PlaybackStep::Event(StreamEvent::Usage(counts.into()))));
        with(beats, PlaybackStep::done(finish, self.script.model.clone()))
    }

    fn complain(&self, message: String) -> Error {
        Error::Script { file: self.file.clone(), message }
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let beats =
            self.play(&request).unwrap_or_else(|error| vec![PlaybackStep::Event(StreamEvent::Error(error))]);
        stream::iter(beats).filter_map(PlaybackStep::act).boxed()
    }
}

/// A moment of an answer.
#[derive(Debug)]
enum PlaybackStep {
    Event(StreamEvent),
    Wait(Duration),
    /// Silence until the caller gives up.
    Hang,
}

impl PlaybackStep {
    fn done(finish: FinishReason, model_version: Option<String>) -> Self {
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

fn with(mut beats: Vec<PlaybackStep>, last: PlaybackStep) -> Vec<PlaybackStep> {
    beats.push(last);
    beats
}

#[cfg(test)]
mod tests;
