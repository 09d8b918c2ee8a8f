//! The cookie of a browser that has come in by a link.

use axum::http::{HeaderMap, header};

/// How long a browser stays in: 30 days, in seconds.
pub const LIFE: u64 = 30 * 24 * 60 * 60;

/// Cookies do not know ports, so the name does: two servers of one machine do not push each other's browsers out.
pub fn name(port: u16) -> String {
    format!("lango-{port}")
}

/// The header that hands it out. No page of another site can make a browser send it, and no script can read it.
pub fn hand_out(name: &str, value: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={LIFE}; HttpOnly; SameSite=Strict{secure}")
}

/// Every value that a request has for the name.
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
    fn a_cookie_is_found_among_others_and_only_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; lango-1=x; lango-12=y"));
        headers.append(header::COOKIE, HeaderValue::from_static("xlango-1=no;lango-1=z=z; lango-1"));
        assert_eq!(values(&headers, "lango-1").collect::<Vec<_>>(), ["x", "z=z"]);
    }

    #[test]
    fn it_goes_to_nobody_else() {
        let written = hand_out(&name(18789), "v", false);
        assert_eq!(written, "lango-18789=v; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict");
        assert!(hand_out("n", "v", true).ends_with("; Secure"));
    }
}
