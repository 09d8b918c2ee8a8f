//! Reverse proxies. Their `X-Forwarded-*` headers count only if their address is configured.

use axum::http::{HeaderMap, HeaderName};
use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An IP address or a CIDR range: `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    prefix_len: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IP address like 10.0.0.1 or a range like 10.0.0.0/8")]
pub struct ParseIpNetworkError(String);

impl FromStr for IpNetwork {
    type Err = ParseIpNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseIpNetworkError> {
        let invalid = || ParseIpNetworkError(text.to_owned());
        let (address, length) =
            text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = length.map_or(Ok(max), str::parse).map_err(|_| invalid())?;
        if prefix_len <= max { Ok(Self { address, prefix_len }) } else { Err(invalid()) }
    }
}

impl IpNetwork {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let difference = u64::from(own.to_bits() ^ other.to_bits());
                difference >> (32 - self.prefix_len) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let difference = own.to_bits() ^ other.to_bits();
                difference.checked_shr(128 - self.prefix_len).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Whether an address is a trusted proxy's.
pub(crate) fn is_trusted(address: IpAddr, trusted: &[IpNetwork]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// The client's address according to a trusted proxy: the last entry of `X-Forwarded-For` that is no trusted proxy itself. Earlier
/// entries are the client's own claims.
pub(crate) fn forwarded_client(headers: &HeaderMap, peer: IpAddr, trusted: &[IpNetwork]) -> Option<IpAddr> {
    if !is_trusted(peer, trusted) {
        return None;
    }
    let values: Vec<&str> = headers.get_all(FOR).iter().filter_map(|value| value.to_str().ok()).collect();
    let mut entries = values.iter().rev().flat_map(|value| value.rsplit(',')).map(parse_client);
    entries.find(|client| client.is_none_or(|client| !is_trusted(client, trusted))).flatten()
}

/// An address with an optional port.
fn parse_client(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.unwrap_or(text).parse().ok();
    address.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// The host and the scheme that the client used to reach the proxy. A chain of proxies sends lists, whose first entry is the
/// client's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders {
    pub host: Option<String>,
    pub https: Option<bool>,
}

impl ForwardedHeaders {
    /// Reads the headers if the peer is a trusted proxy; otherwise they are ignored.
    pub fn from_trusted_proxy(headers: &HeaderMap, peer: Option<IpAddr>, trusted: &[IpNetwork]) -> Self {
        if !peer.is_some_and(|peer| is_trusted(peer, trusted)) {
            return Self::default();
        }
        let first = |name: HeaderName| {
            let text = headers.get(name)?.to_str().ok()?;
            text.split(',').next().map(str::trim)
        };
        Self {
            host: first(HOST).map(str::to_owned),
            https: first(PROTO).map(|scheme| scheme.eq_ignore_ascii_case("https")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_range_contains_exactly_its_addresses() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "::ffff:10.1.2.3", "::1"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "::1", "1.2.3.4"),
        ] {
            let range: IpNetwork = range.parse().unwrap();
            assert!(range.contains(inside.parse().unwrap()), "{range:?} {inside}");
            assert!(!range.contains(outside.parse().unwrap()), "{range:?} {outside}");
        }
        for invalid in ["", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129"] {
            assert!(invalid.parse::<IpNetwork>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (values, client) in [
            (&["1.1.1.1, 2.2.2.2"][..], Some("2.2.2.2")),
            (&["1.1.1.1, 2.2.2.2, 10.0.0.3"], Some("2.2.2.2")),
            (&["1.1.1.1", "2.2.2.2,10.0.0.3"], Some("2.2.2.2")),
            (&["2.2.2.2:4711"], Some("2.2.2.2")),
            (&["[2001:db8::1]:443"], Some("2001:db8::1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["1.1.1.1, unknown"], None),
            (&["10.0.0.3"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FOR, HeaderValue::from_static(value));
            }
            let client: Option<IpAddr> = client.map(|client| client.parse().unwrap());
            assert_eq!(
                forwarded_client(&headers, "10.0.0.1".parse().unwrap(), &trusted),
                client,
                "{values:?}"
            );
            assert_eq!(forwarded_client(&headers, "192.0.2.1".parse().unwrap(), &trusted), None);
        }
    }

    #[test]
    fn headers_of_an_unknown_peer_are_ignored() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("agents.example, inner"));
        headers.insert(PROTO, HeaderValue::from_static("https"));
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let read = |peer: &str| {
            ForwardedHeaders::from_trusted_proxy(&headers, Some(peer.parse().unwrap()), &trusted)
        };
        assert_eq!(read("192.0.2.1"), ForwardedHeaders::default());
        assert_eq!(
            read("10.0.0.7"),
            ForwardedHeaders { host: Some("agents.example".to_owned()), https: Some(true) }
        );
        assert_eq!(
            ForwardedHeaders::from_trusted_proxy(&headers, None, &trusted),
            ForwardedHeaders::default()
        );
    }
}
