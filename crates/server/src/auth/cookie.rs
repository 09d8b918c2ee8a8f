//! The login cookie of a browser.

use axum::http::{HeaderMap, header};

/// Lifetime of the cookie in seconds: 30 days.
pub const LIFETIME: u64 = 30 * 24 * 60 * 60;

/// The name of the cookie. It contains the port because cookies do not distinguish ports: two servers of one machine would
/// overwrite each other's logins.
pub fn name(port: u16) -> String {
    format!("lango-{port}")
}

/// The value of `Set-Cookie`. Scripts cannot read the cookie, and browsers do not send it with requests of other sites.
pub fn set_cookie(name: &str, value: &str, path: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path={path}; Max-Age={LIFETIME}; HttpOnly; SameSite=Strict{secure}")
}

/// All values that a request holds for a cookie.
pub fn values<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_cookie_is_found_among_others_by_its_exact_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; lango-1=x; lango-12=y"));
        headers.append(header::COOKIE, HeaderValue::from_static("xlango-1=no;lango-1=z=z; lango-1"));
        assert_eq!(values(&headers, "lango-1").collect::<Vec<_>>(), ["x", "z=z"]);
    }

    #[test]
    fn the_cookie_is_http_only_and_same_site_and_secure_over_https() {
        let cookie = set_cookie(&name(18789), "v", "/", false);
        assert_eq!(cookie, "lango-18789=v; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict");
        assert!(set_cookie("n", "v", "/agents", true).ends_with("; Secure"));
    }
}
