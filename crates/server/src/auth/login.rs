//! `/login`: a link becomes a cookie. The code is all that an address ever holds, and it is spent by then.

use super::{TokenSecret, cookie};
use crate::{access::AccessControl, error::ApiError, host_policy::RequestOrigin, principal::Principal};
use axum::{
    Extension,
    extract::RawQuery,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

const NOT_GOOD: &str =
    "This link has been used or is too old. `lango serve` prints a new one when it starts.\n";

/// The address of a link, below where the server is.
pub fn path(code: &TokenSecret) -> String {
    format!("/login?code={}", code.reveal())
}

/// Lets the browser in that brings a good code, and sends it to the page.
pub(crate) async fn enter(
    Extension(access): Extension<AccessControl>,
    Extension(seen): Extension<RequestOrigin>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let Some(auth) = access.auth() else { return Ok(to_the_page(None)) };
    let query = query.unwrap_or_default();
    let code = query.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap_or_default();
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the login cannot be stored");
    let Some(value) = auth.redeem_login_code(code).map_err(failed)? else {
        let kind = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
        return Ok((StatusCode::UNAUTHORIZED, [kind, NO_STORE], NOT_GOOD).into_response());
    };
    Ok(to_the_page(Some(&cookie::set_cookie(access.cookie(), value.reveal(), "/", seen.https))))
}

/// A new link, for an administrator's program to show.
pub(crate) async fn link(
    Extension(access): Extension<AccessControl>,
    principal: Principal,
) -> Result<impl IntoResponse, ApiError> {
    let auth = access.auth().filter(|_| principal.user.is_none() && principal.admin);
    let code = auth.and_then(|auth| auth.issue_login_code().ok());
    let code =
        code.ok_or_else(|| ApiError::new(StatusCode::FORBIDDEN, "only an administrator makes links"))?;
    let body = json!({ "path": path(&code) }).to_string();
    Ok(([(header::CONTENT_TYPE, "application/json"), NO_STORE], body))
}

const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

fn to_the_page(cookie: Option<&str>) -> Response {
    let headers = [(header::LOCATION, "/"), NO_STORE, (header::REFERRER_POLICY, "no-referrer")];
    let mut answer = (StatusCode::SEE_OTHER, headers).into_response();
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}
