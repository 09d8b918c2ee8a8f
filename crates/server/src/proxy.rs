//! Proxies before the server. What they say of a client counts only if they are configured.

use axum::http::{HeaderMap, HeaderName};
use std::{net::IpAddr, str::FromStr};

const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// An address, or a range of them: `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address like 10.0.0.1 or a range like 10.0.0.0/8")]
pub struct ParseIpNetworkError(String);

impl FromStr for IpNetwork {
    type Err = ParseIpNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseIpNetworkError> {
        let wrong = || ParseIpNetworkError(text.to_owned());
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits <= most { Ok(Self { address, bits }) } else { Err(wrong()) }
    }
}

impl IpNetwork {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u64::from(own.to_bits() ^ other.to_bits());
                differ >> (32 - self.bits) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// What a proxy says that the client asked for. Several proxies write lists; the first is the client's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders {
    pub host: Option<String>,
    pub https: Option<bool>,
}

impl ForwardedHeaders {
    pub fn from_trusted_proxy(headers: &HeaderMap, peer: Option<IpAddr>, trusted: &[IpNetwork]) -> Self {
        if !peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(peer))) {
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
    fn a_range_holds_its_addresses_and_no_others() {
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
        for bad in ["", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129"] {
            assert!(bad.parse::<IpNetwork>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_configured_proxy_is_believed() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("agents.example, inner"));
        headers.insert(PROTO, HeaderValue::from_static("https"));
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let by = |peer: &str| {
            ForwardedHeaders::from_trusted_proxy(&headers, Some(peer.parse().unwrap()), &trusted)
        };
        assert_eq!(by("192.0.2.1"), ForwardedHeaders::default());
        assert_eq!(
            by("10.0.0.7"),
            ForwardedHeaders { host: Some("agents.example".to_owned()), https: Some(true) }
        );
        assert_eq!(
            ForwardedHeaders::from_trusted_proxy(&headers, None, &trusted),
            ForwardedHeaders::default()
        );
    }
}
