//! From one address to the next: each hop is checked like the first.

use std::{error::Error as StdError, sync::Once, time::Duration};

use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, ACCEPT_ENCODING, LOCATION},
    redirect::Policy,
};

use super::names::{Guard, Refused};
use crate::ToolsError;

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));
const MAX_HOPS: usize = 5;
const CONNECT: Duration = Duration::from_secs(10);

/// A client that reaches nothing but what the guard has checked.
pub(super) fn client(guard: &Guard) -> Result<Client, ToolsError> {
    static ONCE: Once = Once::new();
    // Whoever was first has installed one; that is all that is needed.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let client = Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(guard.clone())
        // A proxy would look names up again, out of our sight.
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(0)
        .build();
    client.map_err(|error| ToolsError::Failed(format!("no page can be fetched here: {}", told(&error))))
}

/// Follows redirects until something else comes.
pub(super) async fn follow(client: &Client, guard: &Guard, text: &str) -> Result<Response, ToolsError> {
    let mut url =
        Url::parse(text).map_err(|error| ToolsError::Failed(format!("`{text}` is no address: {error}")))?;
    let (mut raw, mut from) = (text.to_owned(), None);
    for _ in 0..=MAX_HOPS {
        guard.check(&url, &raw, from.as_ref()).map_err(|why| refused(&url, &why))?;
        let request =
            client.get(url.clone()).header(ACCEPT, "text/html, text/*, application/json, */*;q=0.5");
        // Packed answers are not asked for: a small one may hold a very large one.
        let answer = request.header(ACCEPT_ENCODING, "identity").send().await;
        let response = answer.map_err(|error| failed(&url, &error))?;
        let Some(next) = location(&response) else { return Ok(response) };
        let to = url
            .join(&next)
            .map_err(|_| ToolsError::Failed(format!("{url} redirects to `{next}`, which is no address")))?;
        if url.scheme() == "https" && to.scheme() == "http" {
            return Err(refused(&to, &Refused("a redirect from https to http is not followed".to_owned())));
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

fn refused(url: &Url, why: &Refused) -> ToolsError {
    // A password is not said again.
    let mut url = url.clone();
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    ToolsError::Failed(format!("`{url}` is not fetched: {why}"))
}

pub(super) fn failed(url: &Url, error: &reqwest::Error) -> ToolsError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(why) = inner.downcast_ref::<Refused>() {
            return refused(url, why);
        }
        cause = inner.source();
    }
    ToolsError::Failed(format!("`{url}` could not be fetched: {}", told(error)))
}

/// The innermost cause says the most.
fn told(error: &reqwest::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
