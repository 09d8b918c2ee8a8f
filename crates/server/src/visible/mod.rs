//! The outermost layer: a response to a web page shows invisible characters as escapes, as on a terminal. Programs get every byte
//! as it is.
//!
//! A page shows text without the terminal's rules, so that a person would not see what a model reads. The layer changes the bytes of
//! the response and not its values, so that no handler can forget it.

mod body;
mod filter;

use crate::{access::AccessControl, auth::cookie};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::Response,
};
use body::VisibleBody;
pub(crate) use filter::visible_text;
use filter::{TextSyntax, VisibleFilter};

/// Headers that browsers send and programs do not. Over http, browsers send the first two to loopback addresses only. Node.js sends
/// `Sec-Fetch-Mode`, which is therefore not in the list.
const PAGE_HEADERS: [HeaderName; 5] = [
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-dest"),
    header::ORIGIN,
    header::REFERER,
    header::UPGRADE_INSECURE_REQUESTS,
];

/// A request extension: the response is shown by a browser.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserRequest;

/// A response extension: the body is a file of the page itself and contains no text of users, models or tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAsset;

/// The layer.
pub(crate) async fn show_invisible(
    State(access): State<AccessControl>,
    mut request: Request,
    next: Next,
) -> Response {
    if !is_of_page(request.headers(), access.cookie()) {
        return next.run(request).await;
    }
    request.extensions_mut().insert(BrowserRequest);
    let is_head = request.method() == Method::HEAD;
    let response = next.run(request).await;
    if response.extensions().get::<PageAsset>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = VisibleBody::new(body, VisibleFilter::new(syntax(parts.headers.get(header::CONTENT_TYPE))));
    // The length is that of the original. A known new one is added when the response is sent.
    if is_head || !body.is_unchanged() {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(parts, body.into_body())
}

/// Whether a browser sent the request: by a header that only browsers send, or by the cookie of the login.
fn is_of_page(headers: &HeaderMap, cookie: &str) -> bool {
    PAGE_HEADERS.iter().any(|name| headers.contains_key(name))
        || cookie::values(headers, cookie).next().is_some()
}

fn syntax(content_type: Option<&HeaderValue>) -> TextSyntax {
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    match content_type.split(';').next().unwrap_or_default() {
        "application/json" | "text/event-stream" => TextSyntax::Json,
        "text/html" => TextSyntax::Html,
        _ => TextSyntax::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_recognized_by_headers_of_browsers_and_by_the_login_cookie() {
        let is_page = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_of_page(&headers.collect(), "lango-1")
        };
        for page in [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-dest", "empty"),
            ("origin", "http://127.0.0.1:1"),
            ("referer", "http://10.0.0.1:1/dev-ui/"),
            ("upgrade-insecure-requests", "1"),
            ("cookie", "a=b; lango-1=x"),
        ] {
            assert!(is_page(&[page]), "{page:?}");
            assert!(is_page(&[page, ("authorization", "Bearer x")]), "{page:?}");
        }
        for program in [
            ("authorization", "Bearer x"),
            ("cookie", "lango-2=x"),
            ("user-agent", "python-requests"),
            // Node.js.
            ("sec-fetch-mode", "cors"),
        ] {
            assert!(!is_page(&[program]), "{program:?}");
        }
    }
}
