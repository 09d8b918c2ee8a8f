//! The HTTP transport of a server, with one client for each URL. Configuring a URL allows that origin and no other: requests
//! follow no redirect to another origin.

use std::{collections::HashMap, error::Error, net::IpAddr, sync::Arc, time::Duration};

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

use super::{failure::find_http_error, http_client::SpillingHttpClient, spill::SpilledStrings};
use crate::OutputStore;

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an interrupted stream is resumed, with exponential backoff.
const MAX_RECONNECTS: usize = 3;
/// Headers that the protocol sets itself.
const RESERVED_HEADERS: [&str; 4] = ["accept", "content-type", "last-event-id", "mcp-session-id"];
const MAX_REDIRECTS: usize = 5;

pub(super) fn transport(
    (url, headers): (&str, &[(String, String)]),
    outputs: OutputStore,
    spilled: SpilledStrings,
) -> Result<StreamableHttpClientTransport<SpillingHttpClient>, String> {
    let address = Url::parse(url).map_err(|error| format!("its `url` is not a valid URL: {error}"))?;
    if !["http", "https"].contains(&address.scheme()) {
        return Err("its `url` begins with neither https:// nor http://".to_owned());
    }
    let headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    // A restarted server may have other tools, so the connection is made again instead of the session only.
    config.reinit_on_expired_session = false;
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MAX_RECONNECTS);
    config.retry_config = Arc::new(backoff);
    let client = SpillingHttpClient { client: client(&address)?, outputs, spilled };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Parses a configured header. Errors do not contain its value, which may be a secret.
fn header((name, value): &(String, String)) -> Result<(HeaderName, HeaderValue), String> {
    let invalid = || format!("its header `{name}` has characters that are not allowed in headers");
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    if RESERVED_HEADERS.contains(&header.as_str()) {
        return Err(format!("its header `{name}` is set by the protocol; remove it from the configuration"));
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok((header, value))
}

fn client(address: &Url) -> Result<Client, String> {
    crate::http::install_crypto_provider();
    let same_origin_only = Policy::custom(|attempt| {
        let same = attempt.previous().last().is_some_and(|last| last.origin() == attempt.url().origin());
        if same && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    });
    let builder =
        Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT_TIMEOUT).redirect(same_origin_only);
    let builder = if is_loopback(address) { builder.no_proxy() } else { builder };
    // Loading the system's certificates dominates the startup time, so it is skipped if TLS is not needed.
    let is_plain = address.scheme() == "http" && is_loopback(address);
    let builder = if is_plain { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| format!("the HTTP client cannot be created: {error}"))
}

/// Whether a failed request certainly had no effect: the connection failed, or the server does not know the session.
pub(super) fn was_not_delivered(error: &(dyn Error + 'static)) -> bool {
    match find_http_error(error) {
        Some(StreamableHttpError::SessionExpired) => true,
        Some(StreamableHttpError::Client(inner)) => inner.is_connect(),
        _ => false,
    }
}

fn is_loopback(address: &Url) -> bool {
    let Some(host) = address.host_str() else { return false };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}
