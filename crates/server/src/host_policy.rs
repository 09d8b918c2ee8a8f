//! The policy for Host, Origin and Sec-Fetch-Site headers. It stops pages of other sites, also after DNS rebinding, from using the server.

use crate::proxy::{ForwardedHeaders, IpNetwork};
use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse, Response},
};
use std::net::{IpAddr, SocketAddr};

/// Methods allowed for cross-origin requests.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, PUT, DELETE");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The names under which clients may reach the server, and the origins whose pages may use it.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    /// The address that the server listens on.
    pub address: SocketAddr,
    pub tls: bool,
    /// Allowed hosts besides localhost and the address.
    pub hosts: Vec<HostPort>,
    /// Allowed origins of other pages, as browsers send them.
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-*` headers count.
    pub proxies: Vec<IpNetwork>,
}

/// A host, as in a `Host` header. Without a port, an allowed host matches every port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    name: String,
    port: Option<u16>,
}

impl HostPort {
    /// Parses a name or an address with an optional port.
    pub fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let name = authority.host();
        let port = match text.strip_prefix(name)? {
            "" => None,
            rest => Some(rest.strip_prefix(':')?.parse().ok()?),
        };
        (!name.is_empty()).then(|| Self { name: name.to_ascii_lowercase(), port })
    }

    fn address(&self) -> Option<IpAddr> {
        self.name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

/// The origin of an admitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// Whether the client uses https, to the server or to its proxy.
    pub https: bool,
    /// The allowed origin of another page; `None` for the server's own pages and for programs.
    pub cross_origin: Option<HeaderValue>,
    /// Whether a page of another site or port opened the URL in a tab. Only public pages answer, and without side effects.
    pub is_cross_site: bool,
}

/// The header for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPolicyViolation {
    Host,
    Origin,
    CrossSite,
}

impl IntoResponse for HostPolicyViolation {
    fn into_response(self) -> Response {
        let text = match self {
            Self::Host => "Forbidden: host not allowed",
            Self::Origin => "Forbidden: origin not allowed",
            Self::CrossSite => "Forbidden: request of another site",
        };
        (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "text/plain")], text).into_response()
    }
}

impl HostPolicy {
    /// Checks the Host, Origin and Sec-Fetch-Site of a request. `peer` is the address of the connection.
    pub fn check(
        &self,
        (method, uri): (&Method, &Uri),
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<RequestOrigin, HostPolicyViolation> {
        let forwarded = ForwardedHeaders::from_trusted_proxy(headers, peer, &self.proxies);
        let https = forwarded.https.unwrap_or(self.tls);
        let host =
            self.check_host(uri, headers, forwarded.host.as_deref()).ok_or(HostPolicyViolation::Host)?;
        let cross_origin = self.check_origin(headers, &host, https)?;
        // Browsers send an Origin with most requests of other sites, but not with images, scripts and links. Another port of this
        // host is the same site to them, and gets its cookies.
        let is_foreign = ["cross-site", "same-site"].iter().any(|site| is_value(headers, FETCH_SITE, site));
        let is_cross_site = is_foreign && !headers.contains_key(header::ORIGIN);
        if is_cross_site && !is_navigation(method, headers) {
            return Err(HostPolicyViolation::CrossSite);
        }
        Ok(RequestOrigin { https, cross_origin, is_cross_site })
    }

    /// The host of the request, if it is allowed. A host in the request line must be allowed like the header.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap, forwarded: Option<&str>) -> Option<HostPort> {
        let mut values = headers.get_all(header::HOST).iter();
        let (value, duplicate) = (values.next(), values.next());
        let value = value.filter(|_| duplicate.is_none())?.to_str().ok()?;
        let in_request_line = uri.authority().map(Authority::as_str);
        let mut sent = [Some(value), in_request_line].into_iter().flatten();
        let host = HostPort::parse(forwarded.unwrap_or(value)).filter(|host| self.is_allowed(host))?;
        let all_allowed = sent.all(|text| HostPort::parse(text).is_some_and(|host| self.is_allowed(&host)));
        (forwarded.is_some() || all_allowed).then_some(host)
    }

    fn is_allowed(&self, host: &HostPort) -> bool {
        let is_listed = |listed: &HostPort| {
            listed.name == host.name && (listed.port.is_none() || listed.port == host.port)
        };
        let address = host.address();
        let is_local = host.name == "localhost"
            || address.is_some_and(|address| address.is_loopback() || address == self.address.ip());
        let port = host.port.unwrap_or(if self.tls { 443 } else { 80 });
        (is_local && port == self.address.port()) || self.hosts.iter().any(is_listed)
    }

    /// The origin of another page, if it is allowed. `None` for the server's own pages and without an Origin header.
    fn check_origin(
        &self,
        headers: &HeaderMap,
        host: &HostPort,
        https: bool,
    ) -> Result<Option<HeaderValue>, HostPolicyViolation> {
        let mut values = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = values.next() else { return Ok(None) };
        let text = origin.to_str().map_err(|_| HostPolicyViolation::Origin)?;
        if values.next().is_some() {
            return Err(HostPolicyViolation::Origin);
        }
        if is_same_origin(text, host, https) {
            return Ok(None);
        }
        let is_listed = self.origins.iter().any(|listed| listed == text);
        if is_listed { Ok(Some(origin.clone())) } else { Err(HostPolicyViolation::Origin) }
    }
}

fn is_value(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    let mut found =
        headers.get_all(name).iter().flat_map(|found| found.as_bytes().split(|byte| *byte == b','));
    found.any(|found| found.trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
}

/// Whether a person opened the URL in a tab, for example by a link in a mail.
fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
        && is_value(headers, FETCH_MODE, "navigate")
        && is_value(headers, FETCH_DEST, "document")
}

fn is_same_origin(origin: &str, host: &HostPort, https: bool) -> bool {
    let (scheme, port) = if https { ("https://", 443) } else { ("http://", 80) };
    let Some(own) = origin.strip_prefix(scheme).and_then(HostPort::parse) else { return false };
    own.name == host.name && own.port.unwrap_or(port) == host.port.unwrap_or(port)
}

impl RequestOrigin {
    /// The response to a CORS preflight; `None` if the request is not one.
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let is_preflight =
            method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let origin = self.cross_origin.as_ref().filter(|_| is_preflight)?;
        let mut response = StatusCode::NO_CONTENT.into_response();
        let allowed = response.headers_mut();
        allowed.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        allowed.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        allowed.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        if let Some(requested) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            allowed.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
        }
        add_vary(allowed);
        Some(response)
    }

    /// Lets the page of another origin read the response.
    pub fn add_cors_headers(&self, response: &mut Response) {
        let Some(origin) = &self.cross_origin else { return };
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        add_vary(headers);
    }
}

fn add_vary(headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn policy(address: &str) -> HostPolicy {
        HostPolicy {
            address: address.parse().unwrap(),
            tls: false,
            hosts: vec![
                HostPort::parse("agents.example").unwrap(),
                HostPort::parse("inner.example:8080").unwrap(),
            ],
            origins: vec!["https://app.example".to_owned()],
            proxies: vec!["10.0.0.1".parse().unwrap()],
        }
    }

    fn check(
        policy: &HostPolicy,
        uri: &str,
        headers: &[(&str, &str)],
        peer: &str,
    ) -> Result<RequestOrigin, HostPolicyViolation> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        policy.check((request.method(), request.uri()), request.headers(), Some(peer.parse().unwrap()))
    }

    fn is_allowed_host(text: &str) -> bool {
        check(&policy("127.0.0.1:18789"), "/", &[("host", text)], "127.0.0.1").is_ok()
    }

    #[test]
    fn loopback_names_with_the_port_and_configured_hosts_are_allowed() {
        for allowed in [
            "127.0.0.1:18789",
            "localhost:18789",
            "LocalHost:18789",
            "[::1]:18789",
            "127.0.0.2:18789",
            "agents.example",
            "Agents.Example:443",
            "inner.example:8080",
        ] {
            assert!(is_allowed_host(allowed), "{allowed}");
        }
        for refused in [
            "",
            "evil.example",
            "evil.example:18789",
            "localhost",
            "localhost:80",
            "127.0.0.1",
            "127.0.0.1:18789x",
            "127.0.0.1:",
            "localhost.evil.example:18789",
            "evil@127.0.0.1:18789",
            "127.0.0.1.evil.example:18789",
            "0.0.0.0:18789",
            "2130706433:18789",
            "inner.example",
            "inner.example:8081",
            "127.0.0.1:18789 evil",
            "192.0.2.1:18789",
        ] {
            assert!(!is_allowed_host(refused), "{refused}");
        }
    }

    #[test]
    fn the_address_that_the_server_listens_on_is_an_allowed_host() {
        let policy = policy("192.0.2.1:80");
        let check = |host| check(&policy, "/", &[("host", host)], "192.0.2.9");
        assert!(check("192.0.2.1").is_ok() && check("192.0.2.1:80").is_ok());
        assert!(check("192.0.2.2").is_err());
    }

    #[test]
    fn a_missing_or_duplicate_host_and_another_host_in_the_request_line_are_refused() {
        let policy = policy("127.0.0.1:18789");
        let check = |uri, headers: &[_]| check(&policy, uri, headers, "127.0.0.1");
        assert_eq!(check("/", &[]), Err(HostPolicyViolation::Host));
        let own = ("host", "127.0.0.1:18789");
        assert_eq!(check("/", &[own, own]), Err(HostPolicyViolation::Host));
        assert_eq!(check("http://evil.example/", &[own]), Err(HostPolicyViolation::Host));
        assert!(check("http://127.0.0.1:18789/", &[own]).is_ok());
    }

    #[test]
    fn an_origin_is_the_same_if_scheme_host_and_port_match() {
        let policy = policy("127.0.0.1:18789");
        let check =
            |origin| check(&policy, "/", &[("host", "127.0.0.1:18789"), ("origin", origin)], "127.0.0.1");
        assert_eq!(
            check("http://127.0.0.1:18789"),
            Ok(RequestOrigin { https: false, cross_origin: None, is_cross_site: false })
        );
        for refused in [
            "null",
            "",
            "http://evil.example",
            "https://127.0.0.1:18789",
            "http://127.0.0.1:18790",
            "http://127.0.0.1",
            "http://localhost:18789",
            "http://127.0.0.1:18789/",
            "https://app.example:8443",
            "http://app.example",
        ] {
            assert_eq!(check(refused), Err(HostPolicyViolation::Origin), "{refused}");
        }
        let other = check("https://app.example").unwrap();
        assert_eq!(other.cross_origin.unwrap(), "https://app.example");
    }

    #[test]
    fn a_request_of_another_site_needs_an_allowed_origin_or_opens_a_tab() {
        let policy = policy("127.0.0.1:18789");
        let check_from = |site, more: &[(&'static str, &'static str)]| {
            let headers = [&[("host", "127.0.0.1:18789"), ("sec-fetch-site", site)], more].concat();
            check(&policy, "/", &headers, "127.0.0.1").map(|origin| origin.is_cross_site)
        };
        let check = |more: &[_]| check_from("cross-site", more);
        let (navigate, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        assert_eq!(check(&[navigate, document]), Ok(true));
        assert_eq!(check(&[("origin", "https://app.example"), ("sec-fetch-mode", "cors")]), Ok(false));
        assert_eq!(check(&[("origin", "null"), navigate, document]), Err(HostPolicyViolation::Origin));
        for refused in [
            &[][..],
            &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
            &[navigate, ("sec-fetch-dest", "iframe")],
            &[("sec-fetch-mode", "cors"), document],
        ] {
            assert_eq!(check(refused), Err(HostPolicyViolation::CrossSite), "{refused:?}");
        }
        // A page on another port, and headers that a proxy has merged.
        for site in ["same-site", "Same-Site", "same-origin, cross-site", "same-origin,cross-site"] {
            assert_eq!(check_from(site, &[]), Err(HostPolicyViolation::CrossSite), "{site}");
        }
        for own in ["same-origin", "none", ""] {
            assert_eq!(check_from(own, &[]), Ok(false), "{own}");
        }
        let post = policy.check(
            (&Method::POST, &Uri::from_static("/")),
            &HeaderMap::from_iter(
                [("host", "127.0.0.1:18789"), ("sec-fetch-site", "cross-site"), navigate, document]
                    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
            ),
            None,
        );
        assert_eq!(post, Err(HostPolicyViolation::CrossSite));
    }

    #[test]
    fn forwarded_headers_count_only_from_a_trusted_proxy() {
        let policy = policy("127.0.0.1:18789");
        let headers = [
            ("host", "127.0.0.1:18789"),
            ("x-forwarded-host", "agents.example"),
            ("x-forwarded-proto", "https"),
            ("origin", "https://agents.example"),
        ];
        assert_eq!(
            check(&policy, "/", &headers, "10.0.0.1"),
            Ok(RequestOrigin { https: true, cross_origin: None, is_cross_site: false })
        );
        assert_eq!(check(&policy, "/", &headers, "10.0.0.2"), Err(HostPolicyViolation::Origin));
        let refused = [("host", "127.0.0.1:18789"), ("x-forwarded-host", "evil.example")];
        assert_eq!(check(&policy, "/", &refused, "10.0.0.1"), Err(HostPolicyViolation::Host));
    }

    #[test]
    fn cors_headers_are_sent_to_allowed_origins_only() {
        let allowed = RequestOrigin {
            https: false,
            cross_origin: Some(HeaderValue::from_static("https://app.example")),
            is_cross_site: false,
        };
        let mut headers = HeaderMap::new();
        assert!(allowed.preflight(&Method::OPTIONS, &headers).is_none());
        headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("POST"));
        headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static("authorization"));
        let response = allowed.preflight(&Method::OPTIONS, &headers).unwrap();
        insta::assert_debug_snapshot!(response.headers(), @r#"
        {
            "access-control-allow-origin": "https://app.example",
            "access-control-allow-methods": "GET, POST, PATCH, PUT, DELETE",
            "access-control-max-age": "600",
            "access-control-allow-headers": "authorization",
            "vary": "Origin",
        }
        "#);
        let own = RequestOrigin { https: false, cross_origin: None, is_cross_site: false };
        assert!(own.preflight(&Method::OPTIONS, &headers).is_none());
        let mut response = StatusCode::OK.into_response();
        own.add_cors_headers(&mut response);
        assert!(response.headers().is_empty());
    }
}
