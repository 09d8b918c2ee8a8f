//! Requests that return one JSON document.

use super::{body, transport_error};
use crate::Error;
use reqwest::{Client, Request};
use serde_json::Value;
use std::time::Duration;

/// The maximum body size. The model list of a large gateway has less than a tenth of it.
const MAX_BODY: usize = 16 << 20;

/// Sends a request and reads the response within `timeout`.
pub(crate) async fn fetch_json(
    provider: &str,
    client: &Client,
    request: Request,
    timeout: Duration,
) -> Result<Value, Error> {
    let response = async {
        let (head, mut body) = body::send(provider, client, request, timeout).await?;
        if !head.status.is_success() {
            return Err(transport_error::error_status(&head, body).await);
        }
        let text = body.read_rest(Vec::new(), MAX_BODY).await;
        serde_json::from_slice(&text).map_err(|_| match text.trim_ascii_start() {
            [b'<', ..] => transport_error::html_page(body.provider),
            _ => Error::Protocol { provider: body.provider, message: "expected JSON".to_owned() },
        })
    };
    let stalled = || Error::Stalled { provider: provider.to_owned(), after: timeout };
    tokio::time::timeout(timeout, response).await.unwrap_or_else(|_| Err(stalled()))
}
