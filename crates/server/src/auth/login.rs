//! `/login`: exchanges the one-time code of a login link for a cookie.

use super::{TokenSecret, cookie};
use crate::{
    access::AccessControl, error::ApiError, host_policy::RequestOrigin, input::QueryParams,
    mount_path::MountPath, principal::Principal,
};
use axum::{
    Extension,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

const INVALID_CODE: &str =
    "This login link has been used or has expired. `lango serve` prints a new one when it starts.\n";

/// The path of a login link, relative to the router.
pub fn login_path(code: &TokenSecret) -> String {
    format!("/login?code={}", code.reveal())
}

/// Redeems a login code: sets the cookie and redirects to the web page.
pub(crate) async fn enter(
    Extension(access): Extension<AccessControl>,
    Extension(origin): Extension<RequestOrigin>,
    mount: MountPath,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let Some(authenticator) = access.authenticator() else { return Ok(redirect_to_page(&mount, None)) };
    let code = query.text("code").unwrap_or_default();
    if origin.is_cross_site {
        return Ok(confirm_page(&code));
    }
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the login cannot be stored");
    let Some(value) = authenticator.redeem_login_code(&code).map_err(failed)? else {
        let content_type = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
        return Ok((StatusCode::UNAUTHORIZED, [content_type, NO_STORE], INVALID_CODE).into_response());
    };
    let cookie = cookie::set_cookie(access.cookie(), value.reveal(), mount.root(), origin.https);
    Ok(redirect_to_page(&mount, Some(&cookie)))
}

/// A page that asks before it redeems the code: another site may open the link, but not log its visitor in.
fn confirm_page(code: &str) -> Response {
    let code: String =
        code.chars().filter(|one| one.is_ascii_alphanumeric() || "-_".contains(*one)).collect();
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Log in</title><form method=\"get\">\
         <input type=\"hidden\" name=\"code\" value=\"{code}\"><button>Log in</button></form>\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        NO_STORE,
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; form-action 'self'; frame-ancestors 'none'"),
    ];
    (headers, page).into_response()
}

/// Creates a login link. Only for an administrator of all users.
pub(crate) async fn create_link(
    Extension(access): Extension<AccessControl>,
    principal: Principal,
    mount: MountPath,
) -> Result<impl IntoResponse, ApiError> {
    let authenticator = access.authenticator().filter(|_| principal.user.is_none() && principal.admin);
    let code = authenticator.and_then(|authenticator| authenticator.issue_login_code().ok());
    let code = code.ok_or_else(|| {
        ApiError::new(StatusCode::FORBIDDEN, "only an administrator can create login links")
    })?;
    let body = json!({ "path": mount.join(&login_path(&code)) }).to_string();
    Ok(([(header::CONTENT_TYPE, "application/json"), NO_STORE], body))
}

const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

fn redirect_to_page(mount: &MountPath, cookie: Option<&str>) -> Response {
    let headers = [(header::LOCATION, mount.root()), NO_STORE, (header::REFERRER_POLICY, "no-referrer")];
    let mut response = (StatusCode::SEE_OTHER, headers).into_response();
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
