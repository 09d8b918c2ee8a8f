//! The HTTP client and its redirects, each checked like the first address.

use std::{error::Error as StdError, time::Duration};

use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, ACCEPT_ENCODING, LOCATION},
    redirect::Policy,
};

use super::resolver::{AddressGuard, AddressRefused};
use crate::{ToolsError, http::root_cause};

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));
const MAX_HOPS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that connects only to addresses that the guard has checked.
pub(super) fn client(guard: &AddressGuard) -> Result<Client, ToolsError> {
    crate::http::install_crypto_provider();
    let client = Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(guard.clone())
        // A proxy would resolve names again, without the guard.
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .build();
    client.map_err(|error| {
        ToolsError::Failed(format!("the HTTP client cannot be created: {}", root_cause(&error)))
    })
}

/// Sends the request and follows redirects.
pub(super) async fn follow(
    client: &Client,
    guard: &AddressGuard,
    text: &str,
) -> Result<Response, ToolsError> {
    let mut url = Url::parse(text)
        .map_err(|error| ToolsError::Failed(format!("`{text}` is not a valid URL: {error}")))?;
    let (mut raw, mut from) = (text.to_owned(), None);
    for _ in 0..=MAX_HOPS {
        guard.check(&url, &raw, from.as_ref()).map_err(|why| refused(&url, &why))?;
        let request =
            client.get(url.clone()).header(ACCEPT, "text/html, text/*, application/json, */*;q=0.5");
        // Decompression stops at the size limit of the body.
        let answer = request.header(ACCEPT_ENCODING, "gzip").send().await;
        let response = answer.map_err(|error| fetch_error(&url, &error))?;
        let Some(next) = location(&response) else { return Ok(response) };
        let to = url.join(&next).map_err(|_| {
            ToolsError::Failed(format!("{url} redirects to `{next}`, which is not a valid URL"))
        })?;
        if url.scheme() == "https" && to.scheme() == "http" {
            return Err(refused(
                &to,
                &AddressRefused("a redirect from https to http is not followed".to_owned()),
            ));
        }
        from = Some(std::mem::replace(&mut url, to));
        raw = next;
    }
    Err(ToolsError::Failed(format!("{text} redirects more than {MAX_HOPS} times")))
}

fn location(response: &Response) -> Option<String> {
    let redirects = [301, 302, 303, 307, 308].contains(&response.status().as_u16());
    let header = response.headers().get(LOCATION).filter(|_| redirects)?;
    Some(header.to_str().ok()?.to_owned())
}

fn refused(url: &Url, why: &AddressRefused) -> ToolsError {
    // The error must not repeat a password.
    let mut url = url.clone();
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    ToolsError::Failed(format!("`{url}` is not fetched: {why}"))
}

pub(super) fn fetch_error(url: &Url, error: &reqwest::Error) -> ToolsError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(why) = inner.downcast_ref::<AddressRefused>() {
            return refused(url, why);
        }
        cause = inner.source();
    }
    ToolsError::Failed(format!("`{url}` could not be fetched: {}", root_cause(error)))
}
