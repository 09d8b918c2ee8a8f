//! One call: the request goes out, the answer comes in as events, and whatever goes wrong is the last of them.

use super::{
    Framing, FramingError, SecretString, Splitter,
    body::{self, ResponseBody},
    trouble,
};
use crate::{Error, ModelStream, StreamDecoder, StreamEvent};
use futures::{StreamExt as _, stream};
use reqwest::{Client, Request};
use std::{sync::Arc, time::Duration};

/// What it takes to ask a model. Nothing is sent before the stream is read; dropping it closes the connection.
pub(crate) struct StreamingCall {
    pub(crate) provider: String,
    pub(crate) client: Client,
    pub(crate) request: Request,
    pub(crate) framing: Framing,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    /// How long the server may be silent, before its answer and in it.
    pub(crate) idle: Duration,
    /// What no message may show.
    pub(crate) secrets: Arc<[SecretString]>,
}

impl StreamingCall {
    pub(crate) fn stream(self) -> ModelStream {
        let secrets = Arc::clone(&self.secrets);
        let batches = stream::unfold(CallState::Asking(Box::new(self)), CallState::go_on);
        batches.flat_map(stream::iter).map(move |event| without_secrets(event, &secrets)).boxed()
    }

    async fn send(self) -> Result<ResponseReader, Error> {
        let (head, mut body) = body::send(&self.provider, &self.client, self.request, self.idle).await?;
        if !head.status.is_success() {
            return Err(trouble::refusal(&head, body).await);
        }
        if trouble::is_page(&head.headers) {
            return Err(trouble::page(body.provider));
        }
        let begun = body.begin().await?;
        match begun.trim_ascii_start().first() {
            Some(b'<') => return Err(trouble::page(body.provider)),
            Some(b'{' | b'[') if self.framing == Framing::Sse => {
                return Err(trouble::one_piece(body, begun).await);
            }
            Some(_) | None => (),
        }
        let mut splitter = Splitter::new(self.framing);
        splitter.feed(&begun);
        Ok(ResponseReader { body, splitter, decoder: self.decoder })
    }
}

enum CallState {
    Asking(Box<StreamingCall>),
    Reading(Box<ResponseReader>),
    Over,
}

impl CallState {
    /// The next events, of which there may be none yet.
    async fn go_on(self) -> Option<(Vec<StreamEvent>, Self)> {
        let mut events = Vec::new();
        let next = match self {
            Self::Asking(call) => call.send().await.map(|answer| Self::Reading(Box::new(answer))),
            Self::Reading(mut answer) => {
                let read = answer.read(&mut events).await;
                read.map(|()| if is_done(&events) { Self::Over } else { Self::Reading(answer) })
            }
            Self::Over => return None,
        };
        let next = next.unwrap_or_else(|error| {
            events.push(StreamEvent::Error(error));
            Self::Over
        });
        Some((events, next))
    }
}

/// An answer that is being read.
struct ResponseReader {
    body: ResponseBody,
    splitter: Splitter,
    decoder: Box<dyn StreamDecoder>,
}

impl ResponseReader {
    /// Reads what is there, then waits for more.
    async fn read(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        self.decode(events)?;
        if !events.is_empty() {
            return Ok(());
        }
        match self.body.next().await {
            Ok(Some(bytes)) => {
                self.splitter.feed(&bytes);
                self.decode(events)
            }
            Ok(None) => {
                self.splitter.end();
                self.decode(events)?;
                self.end(events)
            }
            // Where the server has said why it stopped, nothing is missing but the end of the connection.
            Err(error) => self.end(events).map_err(|_| error),
        }
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !is_done(events) {
            self.decoder.end(events)?;
        }
        if is_done(events) { Ok(()) } else { Err(Error::Truncated { provider: self.body.provider.clone() }) }
    }

    fn decode(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let broken = |broken: FramingError| Error::Protocol {
            provider: self.body.provider.clone(),
            message: broken.to_string(),
        };
        while !is_done(events)
            && let Some(frame) = self.splitter.next_frame().map_err(broken)?
        {
            self.decoder.read(frame, events)?;
        }
        Ok(())
    }
}

fn is_done(events: &[StreamEvent]) -> bool {
    matches!(events.last(), Some(StreamEvent::Done(_)))
}

fn without_secrets(event: StreamEvent, secrets: &[SecretString]) -> StreamEvent {
    match event {
        StreamEvent::Error(error) => StreamEvent::Error(error.without(secrets)),
        other => other,
    }
}

#[cfg(test)]
mod tests;
