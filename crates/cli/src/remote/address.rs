//! The address of a server, and whether it may receive the local token.

use provider::http::is_loopback;
use reqwest::Url;
use std::{
    fmt::{self, Write},
    str::FromStr,
};

/// The address of a server: scheme, host and port only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(Url);

impl Address {
    /// Whether the address is loopback. Only such a server may receive the local token.
    pub(super) fn is_local(&self) -> bool {
        is_loopback(&self.0)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fix = || "write it as http://127.0.0.1:18789, without anything after the port".to_owned();
        let url = Url::parse(text).map_err(|_| fix())?;
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        let is_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
        if is_bare && is_web { Ok(Self(url)) } else { Err(fix()) }
    }
}

/// Percent-encodes a name as one segment of a path.
pub(super) fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_has_only_scheme_host_and_port() {
        for text in ["http://127.0.0.1:18789", "https://agents.example.com", "http://[::1]:1/"] {
            assert!(text.parse::<Address>().is_ok(), "{text}");
        }
        for text in ["127.0.0.1:18789", "ftp://a", "http://a/b", "http://u:p@a", "http://a/?token=x", ""] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_addresses_are_local() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local();
        assert!(
            is_local("http://localhost:1") && is_local("http://127.0.0.1:1") && is_local("http://[::1]:1")
        );
        assert!(!is_local("http://localhost.example.com") && !is_local("http://10.0.0.1:1"));
    }

    #[test]
    fn path_segment_escapes_separators() {
        assert_eq!(segment("a-b_c~1"), "a-b_c~1");
        assert_eq!(segment("../a b/ü?"), "%2E%2E%2Fa%20b%2F%C3%BC%3F");
    }
}
