//! One streaming model call: it sends the request and decodes the response. A failure becomes the last event.

use super::{
    Framing, FramingError, SecretString, Splitter,
    body::{self, ResponseBody},
    surrogates::SurrogateJoiner,
    transport_error,
};
use crate::{Error, ModelStream, StreamDecoder, StreamEvent, StreamFrame, decoding};
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
        let first = start.trim_ascii_start().first();
        if first == Some(&b'<') {
            return Err(transport_error::html_page(body.provider));
        }
        let is_json = matches!(first, Some(b'{' | b'['));
        let mut splitter = Splitter::new(self.framing);
        let documents = if is_json && self.framing == Framing::Sse {
            Some(transport_error::json_documents(&mut body, start).await?)
        } else {
            splitter.feed(&start);
            None
        };
        let surrogates = SurrogateJoiner::default();
        Ok(ResponseReader { body, splitter, surrogates, documents, decoder: self.decoder })
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
    surrogates: SurrogateJoiner,
    /// The JSON documents of a body that is not a stream.
    documents: Option<Vec<String>>,
    decoder: Box<dyn StreamDecoder>,
}

impl ResponseReader {
    /// Decodes buffered frames first, and reads more bytes only if they produced no event.
    async fn read_events(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if let Some(documents) = self.documents.take() {
            return self.decode_documents(&documents, events);
        }
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
                self.decode(events).map_err(|error| match error {
                    // The last frame has no end, so it is cut off rather than malformed.
                    Error::Protocol { provider, .. } => Error::Truncated { provider },
                    other => other,
                })?;
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
            let data = self.surrogates.join(frame.data);
            self.decoder.read(StreamFrame { data: &data, ..frame }, events)?;
        }
        Ok(())
    }

    /// Decodes a body that is not a stream.
    fn decode_documents(&mut self, documents: &[String], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        for data in documents.iter().filter(|data| !data.is_empty()) {
            if !is_done(events) {
                self.decoder.read(StreamFrame { event: "", data }, events)?;
            }
        }
        if !events.is_empty() && !is_done(events) {
            // The document is complete, so the answer is, too.
            self.decoder.read(StreamFrame { event: "", data: "[DONE]" }, events)?;
        }
        match (self.finish(events), documents.first()) {
            // A document of another kind.
            (Err(Error::Truncated { provider }), Some(data)) if events.is_empty() => {
                Err(decoding::parse_error(&provider, data))
            }
            (finished, _) => finished,
        }
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
