//! A body of JSON in one piece.

use super::{body, trouble};
use crate::Error;
use reqwest::{Client, Request};
use serde_json::Value;
use std::time::Duration;

/// The longest body that is read; a list of all models of a gateway has less than a tenth of it.
const LONGEST: usize = 16 << 20;

/// Sends a request and reads its answer, all within this time.
pub(crate) async fn fetch(
    provider: &str,
    client: &Client,
    request: Request,
    within: Duration,
) -> Result<Value, Error> {
    let answer = async {
        let (head, mut body) = body::send(provider, client, request, within).await?;
        if !head.status.is_success() {
            return Err(trouble::refusal(&head, body).await);
        }
        let text = body.rest(Vec::new(), LONGEST).await;
        serde_json::from_slice(&text).map_err(|_| match text.trim_ascii_start() {
            [b'<', ..] => trouble::page(body.provider),
            _ => Error::Protocol { provider: body.provider, message: "JSON was expected".to_owned() },
        })
    };
    let stalled = || Error::Stalled { provider: provider.to_owned(), after: within };
    tokio::time::timeout(within, answer).await.unwrap_or_else(|_| Err(stalled()))
}
