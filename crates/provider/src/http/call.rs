//! One streaming model call: it sends the request and decodes the response. A failure becomes the last event.

use super::{
    Framing, FramingError, SecretString, Splitter,
    body::{self, ResponseBody},
    transport_error,
};
use crate::{Error, ModelStream, StreamDecoder, StreamEvent};
use futures::{StreamExt as _, stream};
use reqwest::{Client, Request};
use std::{sync::Arc, time::Duration};

/// Everything that a streaming call needs. The request is sent when the stream is first polled; dropping the stream
/// closes the connection.
pub(crate) struct StreamingCall {
    pub(crate) provider: String,
    pub(crate) client: Client,
    pub(crate) request: Request,
    pub(crate) framing: Framing,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    /// The idle timeout, for the response head and for each read of the body.
    pub(crate) idle: Duration,
    /// Values that are masked in error messages.
    pub(crate) secrets: Arc<[SecretString]>,
}

impl StreamingCall {
    pub(crate) fn stream(self) -> ModelStream {
        let secrets = Arc::clone(&self.secrets);
        let batches = stream::unfold(CallState::Sending(Box::new(self)), CallState::advance);
        batches.flat_map(stream::iter).map(move |event| mask_secrets(event, &secrets)).boxed()
    }

    async fn send(self) -> Result<ResponseReader, Error> {
        let (head, mut body) = body::send(&self.provider, &self.client, self.request, self.idle).await?;
        if !head.status.is_success() {
            return Err(transport_error::error_status(&head, body).await);
        }
        if transport_error::is_html(&head.headers) {
            return Err(transport_error::html_page(body.provider));
        }
        let start = body.read_first().await?;
        match start.trim_ascii_start().first() {
            Some(b'<') => return Err(transport_error::html_page(body.provider)),
            Some(b'{' | b'[') if self.framing == Framing::Sse => {
                return Err(transport_error::not_a_stream(body, start).await);
            }
            Some(_) | None => (),
        }
        let mut splitter = Splitter::new(self.framing);
        splitter.feed(&start);
        Ok(ResponseReader { body, splitter, decoder: self.decoder })
    }
}

enum CallState {
    Sending(Box<StreamingCall>),
    Reading(Box<ResponseReader>),
    Finished,
}

impl CallState {
    /// Returns the next events, possibly none.
    async fn advance(self) -> Option<(Vec<StreamEvent>, Self)> {
        let mut events = Vec::new();
        let next = match self {
            Self::Sending(call) => call.send().await.map(|reader| Self::Reading(Box::new(reader))),
            Self::Reading(mut reader) => {
                let read = reader.read_events(&mut events).await;
                read.map(|()| if is_done(&events) { Self::Finished } else { Self::Reading(reader) })
            }
            Self::Finished => return None,
        };
        let next = next.unwrap_or_else(|error| {
            events.push(StreamEvent::Error(error));
            Self::Finished
        });
        Some((events, next))
    }
}

/// Decodes the body of a response.
struct ResponseReader {
    body: ResponseBody,
    splitter: Splitter,
    decoder: Box<dyn StreamDecoder>,
}

impl ResponseReader {
    /// Decodes buffered frames first, and reads more bytes only if they produced no event.
    async fn read_events(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
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
                self.finish(events)
            }
            // After a finish reason the answer is complete, even if the connection fails.
            Err(error) => self.finish(events).map_err(|_| error),
        }
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !is_done(events) {
            self.decoder.end(events)?;
        }
        if is_done(events) { Ok(()) } else { Err(Error::Truncated { provider: self.body.provider.clone() }) }
    }

    fn decode(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let protocol_error = |error: FramingError| Error::Protocol {
            provider: self.body.provider.clone(),
            message: error.to_string(),
        };
        while !is_done(events)
            && let Some(frame) = self.splitter.next_frame().map_err(protocol_error)?
        {
            self.decoder.read(frame, events)?;
        }
        Ok(())
    }
}

fn is_done(events: &[StreamEvent]) -> bool {
    matches!(events.last(), Some(StreamEvent::Done(_)))
}

fn mask_secrets(event: StreamEvent, secrets: &[SecretString]) -> StreamEvent {
    match event {
        StreamEvent::Error(error) => StreamEvent::Error(error.mask_secrets(secrets)),
        other => other,
    }
}

#[cfg(test)]
mod tests;
