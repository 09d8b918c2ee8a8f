//! The head and body of a response, with an idle timeout for each read.

use super::{
    inflate::{self, Inflater},
    transport_error,
};
use crate::Error;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use reqwest::{Client, Request, StatusCode, header::HeaderMap};
use std::time::Duration;

pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

/// The bytes of a response as they arrive.
pub(super) struct ResponseBody {
    pub(super) provider: String,
    pub(super) bytes: BoxStream<'static, Result<Bytes, Error>>,
    /// The timeout of one read. Any byte resets it, including those of SSE comments.
    pub(super) idle: Duration,
    /// For a body that is compressed, although the request does not ask for it.
    pub(super) inflater: Option<Inflater>,
}

/// Sends a request and waits for the response head.
pub(super) async fn send(
    provider: &str,
    client: &Client,
    request: Request,
    idle: Duration,
) -> Result<(ResponseHead, ResponseBody), Error> {
    let url = request.url().clone();
    let provider = provider.to_owned();
    let response = match tokio::time::timeout(idle, client.execute(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(transport_error::send_failed(provider, &url, error)),
        Err(_) => return Err(Error::Stalled { provider, after: idle }),
    };
    let head = ResponseHead { status: response.status(), headers: response.headers().clone() };
    let name = provider.clone();
    let bytes = response
        .bytes_stream()
        .map_err(move |error| transport_error::connection_lost(name.clone(), &error))
        .boxed();
    let inflater = inflate::for_headers(&provider, &head.headers)?;
    Ok((head, ResponseBody { provider, bytes, idle, inflater }))
}

impl ResponseBody {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let bytes = self.next_received().await?;
            match (&mut self.inflater, bytes) {
                (Some(inflater), Some(bytes)) => {
                    let inflated = inflater.inflate(&self.provider, &bytes)?;
                    if !inflated.is_empty() {
                        return Ok(Some(inflated));
                    }
                }
                (_, bytes) => return Ok(bytes),
            }
        }
    }

    /// The next bytes as they were received.
    async fn next_received(&mut self) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.idle, self.bytes.try_next()).await {
            Ok(bytes) => bytes,
            Err(_) => Err(Error::Stalled { provider: self.provider.clone(), after: self.idle }),
        }
    }

    /// Reads until the body has a byte that is not white space. The result is blank if the body ends first.
    pub(super) async fn read_first(&mut self) -> Result<Vec<u8>, Error> {
        let mut read = Vec::new();
        while read.trim_ascii().is_empty()
            && let Some(bytes) = self.next().await?
        {
            read.extend_from_slice(&bytes);
        }
        Ok(read)
    }

    /// Appends the rest of the body to `read`, until it ends, fails or reaches `max` bytes.
    pub(super) async fn read_rest(&mut self, mut read: Vec<u8>, max: usize) -> Vec<u8> {
        while read.len() < max
            && let Ok(Some(bytes)) = self.next().await
        {
            read.extend_from_slice(&bytes);
        }
        read.truncate(max);
        read
    }
}
