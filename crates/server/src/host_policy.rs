//! HostPort and Origin, before anything else: a page of another site cannot speak to the server, whatever name it gives it.

use crate::proxy::{ForwardedHeaders, IpNetwork};
use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts, uri::Authority},
    response::{IntoResponse, Response},
};
use std::net::{IpAddr, SocketAddr};

/// What a page of another origin may do, if its origin is configured.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, PUT, DELETE");
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Where the server is, and who else may call it what.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    /// Where it listens.
    pub address: SocketAddr,
    pub tls: bool,
    pub hosts: Vec<HostPort>,
    /// Origins of other pages that may speak to it, as browsers write them.
    pub origins: Vec<String>,
    pub proxies: Vec<IpNetwork>,
}

/// A name that the server goes by; without a port, on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    name: String,
    port: Option<u16>,
}

impl HostPort {
    /// As in a `Host` header: a name or an address, perhaps with a port.
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

/// How a client that may come in sees the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    pub https: bool,
    /// The page of another origin that asks.
    pub origin: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPolicyViolation {
    Host,
    Origin,
}

impl IntoResponse for HostPolicyViolation {
    fn into_response(self) -> Response {
        let text = match self {
            Self::Host => "Forbidden: host not allowed",
            Self::Origin => "Forbidden: origin not allowed",
        };
        (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "text/plain")], text).into_response()
    }
}

impl HostPolicy {
    pub fn check(&self, parts: &Parts, peer: Option<IpAddr>) -> Result<RequestOrigin, HostPolicyViolation> {
        let forwarded = ForwardedHeaders::from_trusted_proxy(&parts.headers, peer, &self.proxies);
        let https = forwarded.https.unwrap_or(self.tls);
        let host = self.host(parts, forwarded.host.as_deref()).ok_or(HostPolicyViolation::Host)?;
        let origin = self.origin(&parts.headers, &host, https)?;
        Ok(RequestOrigin { https, origin })
    }

    /// The name that the client uses, if it is one of ours. A name in the request line counts as much as the header's.
    fn host(&self, parts: &Parts, forwarded: Option<&str>) -> Option<HostPort> {
        let mut headers = parts.headers.get_all(header::HOST).iter();
        let (written, more) = (headers.next(), headers.next());
        let written = written.filter(|_| more.is_none())?.to_str().ok()?;
        let named = parts.uri.authority().map(Authority::as_str);
        let mut all = [Some(written), named].into_iter().flatten();
        let own = HostPort::parse(forwarded.unwrap_or(written)).filter(|host| self.is_ours(host))?;
        let others_are_ours = all.all(|text| HostPort::parse(text).is_some_and(|host| self.is_ours(&host)));
        (forwarded.is_some() || others_are_ours).then_some(own)
    }

    fn is_ours(&self, host: &HostPort) -> bool {
        let is_listed = |listed: &HostPort| {
            listed.name == host.name && (listed.port.is_none() || listed.port == host.port)
        };
        let address = host.address();
        let is_here = host.name == "localhost"
            || address.is_some_and(|address| address.is_loopback() || address == self.address.ip());
        let port = host.port.unwrap_or(if self.tls { 443 } else { 80 });
        (is_here && port == self.address.port()) || self.hosts.iter().any(is_listed)
    }

    /// The origin of another page that may ask; none for our own pages, and for programs, which have no origin.
    fn origin(
        &self,
        headers: &HeaderMap,
        host: &HostPort,
        https: bool,
    ) -> Result<Option<HeaderValue>, HostPolicyViolation> {
        let mut all = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = all.next() else { return Ok(None) };
        let text = origin.to_str().map_err(|_| HostPolicyViolation::Origin)?;
        if all.next().is_some() {
            return Err(HostPolicyViolation::Origin);
        }
        if is_origin_of(text, host, https) {
            return Ok(None);
        }
        let is_listed = self.origins.iter().any(|listed| listed == text);
        if is_listed { Ok(Some(origin.clone())) } else { Err(HostPolicyViolation::Origin) }
    }
}

fn is_origin_of(origin: &str, host: &HostPort, https: bool) -> bool {
    let (scheme, port) = if https { ("https://", 443) } else { ("http://", 80) };
    let Some(own) = origin.strip_prefix(scheme).and_then(HostPort::parse) else { return false };
    own.name == host.name && own.port.unwrap_or(port) == host.port.unwrap_or(port)
}

impl RequestOrigin {
    /// The answer to a browser that asks whether a page of another origin may ask.
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let asks = method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let origin = self.origin.as_ref().filter(|_| asks)?;
        let mut answer = StatusCode::NO_CONTENT.into_response();
        let all = answer.headers_mut();
        all.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        all.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        all.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            all.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        vary(all);
        Some(answer)
    }

    /// Lets the page of another origin read the answer.
    pub fn share(&self, answer: &mut Response) {
        let Some(origin) = &self.origin else { return };
        let all = answer.headers_mut();
        all.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        all.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        vary(all);
    }
}

fn vary(headers: &mut HeaderMap) {
    const ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
    let name: HeaderName = header::VARY;
    headers.append(name, ORIGIN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn guard(address: &str) -> HostPolicy {
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

    fn asked(
        guard: &HostPolicy,
        uri: &str,
        headers: &[(&str, &str)],
        peer: &str,
    ) -> Result<RequestOrigin, HostPolicyViolation> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap().into_parts().0, Some(peer.parse().unwrap()))
    }

    fn host(text: &str) -> bool {
        asked(&guard("127.0.0.1:18789"), "/", &[("host", text)], "127.0.0.1").is_ok()
    }

    #[test]
    fn the_server_goes_by_the_names_of_this_machine_and_those_it_was_given() {
        for ours in [
            "127.0.0.1:18789",
            "localhost:18789",
            "LocalHost:18789",
            "[::1]:18789",
            "127.0.0.2:18789",
            "agents.example",
            "Agents.Example:443",
            "inner.example:8080",
        ] {
            assert!(host(ours), "{ours}");
        }
        for foreign in [
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
            assert!(!host(foreign), "{foreign}");
        }
    }

    #[test]
    fn an_address_of_the_network_is_a_name_where_the_server_listens_on_it() {
        let guard = guard("192.0.2.1:80");
        let asked = |host| asked(&guard, "/", &[("host", host)], "192.0.2.9");
        assert!(asked("192.0.2.1").is_ok() && asked("192.0.2.1:80").is_ok());
        assert!(asked("192.0.2.2").is_err());
    }

    #[test]
    fn no_host_two_hosts_and_another_host_in_the_request_line_are_foreign() {
        let guard = guard("127.0.0.1:18789");
        let asked = |uri, headers: &[_]| asked(&guard, uri, headers, "127.0.0.1");
        assert_eq!(asked("/", &[]), Err(HostPolicyViolation::Host));
        let ours = ("host", "127.0.0.1:18789");
        assert_eq!(asked("/", &[ours, ours]), Err(HostPolicyViolation::Host));
        assert_eq!(asked("http://evil.example/", &[ours]), Err(HostPolicyViolation::Host));
        assert!(asked("http://127.0.0.1:18789/", &[ours]).is_ok());
    }

    #[test]
    fn a_page_is_ours_by_scheme_name_and_port() {
        let guard = guard("127.0.0.1:18789");
        let asked =
            |origin| asked(&guard, "/", &[("host", "127.0.0.1:18789"), ("origin", origin)], "127.0.0.1");
        assert_eq!(asked("http://127.0.0.1:18789"), Ok(RequestOrigin { https: false, origin: None }));
        for foreign in [
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
            assert_eq!(asked(foreign), Err(HostPolicyViolation::Origin), "{foreign}");
        }
        let other = asked("https://app.example").unwrap();
        assert_eq!(other.origin.unwrap(), "https://app.example");
    }

    #[test]
    fn a_proxy_says_how_the_client_sees_us_and_anybody_else_does_not() {
        let guard = guard("127.0.0.1:18789");
        let headers = [
            ("host", "127.0.0.1:18789"),
            ("x-forwarded-host", "agents.example"),
            ("x-forwarded-proto", "https"),
            ("origin", "https://agents.example"),
        ];
        assert_eq!(asked(&guard, "/", &headers, "10.0.0.1"), Ok(RequestOrigin { https: true, origin: None }));
        assert_eq!(asked(&guard, "/", &headers, "10.0.0.2"), Err(HostPolicyViolation::Origin));
        let foreign = [("host", "127.0.0.1:18789"), ("x-forwarded-host", "evil.example")];
        assert_eq!(asked(&guard, "/", &foreign, "10.0.0.1"), Err(HostPolicyViolation::Host));
    }

    #[test]
    fn a_browser_is_told_what_a_configured_page_may_do_and_nothing_of_others() {
        let passed =
            RequestOrigin { https: false, origin: Some(HeaderValue::from_static("https://app.example")) };
        let mut headers = HeaderMap::new();
        assert!(passed.preflight(&Method::OPTIONS, &headers).is_none());
        headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("POST"));
        headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static("authorization"));
        let answer = passed.preflight(&Method::OPTIONS, &headers).unwrap();
        insta::assert_debug_snapshot!(answer.headers(), @r#"
        {
            "access-control-allow-origin": "https://app.example",
            "access-control-allow-methods": "GET, POST, PATCH, PUT, DELETE",
            "access-control-max-age": "600",
            "access-control-allow-headers": "authorization",
            "vary": "Origin",
        }
        "#);
        let own = RequestOrigin { https: false, origin: None };
        assert!(own.preflight(&Method::OPTIONS, &headers).is_none());
        let mut answer = StatusCode::OK.into_response();
        own.share(&mut answer);
        assert!(answer.headers().is_empty());
    }
}
