//! A server that is reached by HTTP, with one client for each address. Whoever configured the address has allowed it, and
//! nothing else: what is sent goes to no other host.

use std::{
    collections::HashMap,
    error::Error,
    net::IpAddr,
    sync::{Arc, Once},
    time::Duration,
};

use reqwest::{
    Client, Url,
    header::{HeaderName, HeaderValue},
    redirect::Policy,
};
use rmcp::transport::{
    StreamableHttpClientTransport,
    common::client_side_sse::ExponentialBackoff,
    streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
};

use super::{post::Post, thin::Shelf};
use crate::OutputStore;

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(10);
/// A stream that is cut is taken up so often, with longer and longer pauses.
const RECONNECTS: usize = 3;
const OURS: [&str; 4] = ["accept", "content-type", "last-event-id", "mcp-session-id"];
const MAX_HOPS: usize = 5;

pub(super) fn transport(
    (url, headers): (&str, &[(String, String)]),
    outputs: OutputStore,
    shelf: Shelf,
) -> Result<StreamableHttpClientTransport<Post>, String> {
    let address = Url::parse(url).map_err(|error| format!("its `url` is no address: {error}"))?;
    if !["http", "https"].contains(&address.scheme()) {
        return Err("its `url` begins with neither https:// nor http://".to_owned());
    }
    let headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    // A server that was started again may have other tools, so all of it is done anew.
    config.reinit_on_expired_session = false;
    let mut again = ExponentialBackoff::default();
    again.max_times = Some(RECONNECTS);
    config.retry_config = Arc::new(again);
    let post = Post { client: client(&address)?, outputs, shelf };
    Ok(StreamableHttpClientTransport::with_client(post, config))
}

/// What a header holds is in no error.
fn header((name, value): &(String, String)) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || format!("its header `{name}` cannot be sent: it has characters that headers cannot have");
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    if OURS.contains(&header.as_str()) {
        return Err(format!("its header `{name}` belongs to the protocol; leave it out"));
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((header, value))
}

fn client(address: &Url) -> Result<Client, String> {
    static ONCE: Once = Once::new();
    // Whoever was first has installed one; that is all that is needed.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let at_home = Policy::custom(|attempt| {
        let stays = attempt.previous().last().is_some_and(|last| last.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= MAX_HOPS { attempt.follow() } else { attempt.stop() }
    });
    let builder = Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT).redirect(at_home);
    let builder = if is_loopback(address) { builder.no_proxy() } else { builder };
    // To read the system's certificates takes longer than all else here.
    let is_plain = address.scheme() == "http" && is_loopback(address);
    let builder = if is_plain { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| format!("no connection can be made from here: {error}"))
}

/// Whether what failed was never heard by the server: nobody was there, or it knows nothing of us any more.
pub(super) fn never_arrived(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        cause = match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::SessionExpired) => return true,
            Some(StreamableHttpError::Client(inner)) => return inner.is_connect(),
            _ => error.source(),
        };
    }
    false
}

/// The innermost cause says the most, and holds no address, which may be a secret.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        cause = match (cause.downcast_ref::<StreamableHttpError<reqwest::Error>>(), cause.source()) {
            (Some(StreamableHttpError::Client(inner)), _) => inner,
            (_, Some(inner)) => inner,
            (_, None) => return cause.to_string(),
        };
    }
}

fn is_loopback(address: &Url) -> bool {
    let Some(host) = address.host_str() else { return false };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}
