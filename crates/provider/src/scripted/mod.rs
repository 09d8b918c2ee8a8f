//! A provider that replays a YAML script: deterministic and offline.
//!
//! Rules are tried from top to bottom; the first one that matches the request produces the response. Text is streamed
//! word by word, as a model would.

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
    /// The name of the script in errors.
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

    /// Parses a script that is not in a file; `name` identifies it in errors.
    pub fn from_str(name: impl Into<String>, yaml: &str) -> Result<Self, Error> {
        let file = name.into();
        match serde_saphyr::from_str(yaml) {
            Ok(script) => Ok(Self { file, script }),
            Err(error) => Err(Error::Script { file, message: error.without_snippet().to_string() }),
        }
    }

    /// The model name in the script.
    pub fn model(&self) -> Option<&str> {
        self.script.model.as_deref()
    }

    fn response_steps(&self, request: &ModelRequest) -> Result<Vec<PlaybackStep>, Error> {
        let prompt = ScriptPrompt::from_request(request);
        let rule = self
            .script
            .rules
            .iter()
            .find(|rule| prompt.matches(&rule.when))
            .ok_or_else(|| self.script_error(format!("no rule matches {}", prompt.describe())))?;
        let mut steps = Vec::new();
        let mut usage = self.script.usage;
        for scripted in &rule.reply {
            match scripted {
                ScriptStep::Text(text) => {
                    self.push_words(&prompt, text, StreamEvent::text_delta, &mut steps)?;
                }
                ScriptStep::Thought(text) => {
                    self.push_words(&prompt, text, StreamEvent::thought_delta, &mut steps)?;
                }
                ScriptStep::Call(call) => {
                    steps.push(PlaybackStep::Event(StreamEvent::ToolCall(self.expand_call(&prompt, call)?)));
                }
                ScriptStep::Usage(counts) => usage = Some(*counts),
                ScriptStep::DelayMs(millis) => steps.push(PlaybackStep::Wait(Duration::from_millis(*millis))),
                ScriptStep::Hang => return Ok(append(steps, PlaybackStep::Hang)),
                ScriptStep::Fail(failure) => {
                    return Ok(append(steps, PlaybackStep::Event(StreamEvent::Error(failure.to_error()))));
                }
                // A refusal carries neither model version nor usage, like those of real providers.
                ScriptStep::Refuse(refusal) => {
                    let finish = FinishReason::Refused {
                        code: refusal.code.clone(),
                        message: refusal.message.clone(),
                    };
                    return Ok(append(steps, PlaybackStep::done(finish, None)));
                }
                ScriptStep::Length => return Ok(self.complete(steps, usage, FinishReason::Length)),
            }
        }
        Ok(self.complete(steps, usage, FinishReason::Stop))
    }

    fn push_words(
        &self,
        prompt: &ScriptPrompt<'_>,
        text: &ScriptText,
        event: fn(String, Option<String>) -> StreamEvent,
        steps: &mut Vec<PlaybackStep>,
    ) -> Result<(), Error> {
        let expanded = template::expand(text.text(), prompt).map_err(|message| self.script_error(message))?;
        let mut words = split_words(&expanded).peekable();
        while let Some(word) = words.next() {
            let signature = if words.peek().is_none() { text.signature() } else { None };
            steps.push(PlaybackStep::Event(event(word.to_owned(), signature)));
            if let Some(millis) = self.script.word_delay_ms {
                steps.push(PlaybackStep::Wait(Duration::from_millis(millis)));
            }
        }
        Ok(())
    }

    fn expand_call(&self, prompt: &ScriptPrompt<'_>, call: &ScriptCall) -> Result<ToolCall, Error> {
        let args = call
            .args
            .iter()
            .map(|(key, value)| Ok((key.clone(), template::expand_value(value, prompt)?)))
            .collect::<Result<_, String>>()
            .map_err(|message| self.script_error(message))?;
        Ok(ToolCall {
            id: call.id.clone().unwrap_or_default(),
            name: call.name.clone(),
            args,
            signature: call.signature.clone(),
            malformed: None,
        })
    }

    fn complete(
        &self,
        mut steps: Vec<PlaybackStep>,
        usage: Option<script::ScriptUsage>,
        finish: FinishReason,
    ) -> Vec<PlaybackStep> {
        steps.extend(usage.map(|counts| PlaybackStep::Event(StreamEvent::Usage(counts.into()))));
        append(steps, PlaybackStep::done(finish, self.script.model.clone()))
    }

    fn script_error(&self, message: String) -> Error {
        Error::Script { file: self.file.clone(), message }
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn reads_prefix(&self) -> bool {
        true
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let steps = self
            .response_steps(&request)
            .unwrap_or_else(|error| vec![PlaybackStep::Event(StreamEvent::Error(error))]);
        stream::iter(steps).filter_map(PlaybackStep::perform).boxed()
    }
}

/// One step of a response.
#[derive(Debug)]
enum PlaybackStep {
    Event(StreamEvent),
    Wait(Duration),
    /// Never completes.
    Hang,
}

impl PlaybackStep {
    fn done(finish: FinishReason, model_version: Option<String>) -> Self {
        Self::Event(StreamEvent::Done(Done::new(finish, model_version)))
    }

    async fn perform(self) -> Option<StreamEvent> {
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

fn append(mut steps: Vec<PlaybackStep>, last: PlaybackStep) -> Vec<PlaybackStep> {
    steps.push(last);
    steps
}

#[cfg(test)]
mod tests;
