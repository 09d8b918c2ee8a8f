//! The head and the bytes of a response, each wait for the next of them limited.

use super::trouble;
use crate::Error;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use reqwest::{Client, Request, StatusCode, header::HeaderMap};
use std::time::Duration;

pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

/// The bytes as they come.
pub(super) struct ResponseBody {
    pub(super) provider: String,
    pub(super) bytes: BoxStream<'static, Result<Bytes, Error>>,
    /// How long the next may take. Any byte, a comment's too, ends the wait.
    pub(super) idle: Duration,
}

/// Sends a request and waits for the head of its response.
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
        Ok(Err(error)) => return Err(trouble::unsent(provider, &url, error)),
        Err(_) => return Err(Error::Stalled { provider, after: idle }),
    };
    let head = ResponseHead { status: response.status(), headers: response.headers().clone() };
    let place = provider.clone();
    let bytes = response.bytes_stream().map_err(move |error| trouble::cut_off(place.clone(), error)).boxed();
    Ok((head, ResponseBody { provider, bytes, idle }))
}

impl ResponseBody {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.idle, self.bytes.try_next()).await {
            Ok(bytes) => bytes,
            Err(_) => Err(Error::Stalled { provider: self.provider.clone(), after: self.idle }),
        }
    }

    /// The first bytes that say something; none, if the body ends without.
    pub(super) async fn begin(&mut self) -> Result<Vec<u8>, Error> {
        let mut begun = Vec::new();
        while begun.trim_ascii().is_empty()
            && let Some(bytes) = self.next().await?
        {
            begun.extend_from_slice(&bytes);
        }
        Ok(begun)
    }

    /// All that follows `begun`, as far as it comes and up to so many bytes.
    pub(super) async fn rest(&mut self, mut begun: Vec<u8>, longest: usize) -> Vec<u8> {
        while begun.len() < longest
            && let Ok(Some(bytes)) = self.next().await
        {
            begun.extend_from_slice(&bytes);
        }
        begun.truncate(longest);
        begun
    }
}
