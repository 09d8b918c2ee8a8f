//! The layers in front of the routes: `check_host` for every route, then `authenticate` for those that need a principal.
//!
//! Which routes need one is decided by the route table, not by the path of a request, so that the router can be nested.

use crate::{
    auth::{Authenticator, Caller, CredentialError, cookie},
    error::ApiError,
    host_policy::HostPolicy,
    limits::{RateLimiter, ServerLimits},
    path_params::USER,
    principal::Principal,
};
use axum::{
    extract::{DefaultBodyLimit, FromRequestParts, RawPathParams, Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// The address of the client, as a request extension. The connection inserts it; without it, no proxy is trusted.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// Host policy, authentication and limits. Clones share their state.
#[derive(Clone, Debug)]
pub struct AccessControl(Arc<AccessControlInner>);

#[derive(Debug)]
struct AccessControlInner {
    host_policy: HostPolicy,
    /// Without it, every request is an administrator's.
    authenticator: Option<Authenticator>,
    limits: ServerLimits,
    rates: RateLimiter,
    cookie: String,
}

impl AccessControl {
    /// Without an authenticator, every client is an administrator.
    pub fn new(host_policy: HostPolicy, authenticator: Option<Authenticator>, limits: ServerLimits) -> Self {
        let rates = RateLimiter::new(limits.requests_per_minute);
        let cookie = cookie::name(host_policy.address.port());
        Self(Arc::new(AccessControlInner { host_policy, authenticator, limits, rates, cookie }))
    }

    pub fn limits(&self) -> &ServerLimits {
        &self.0.limits
    }

    pub fn authenticator(&self) -> Option<&Authenticator> {
        self.0.authenticator.as_ref()
    }

    /// The name of the session cookie of browsers.
    pub fn cookie(&self) -> &str {
        &self.0.cookie
    }

    /// Authenticates a request and checks its limits and the owner of its path.
    async fn authorize(&self, parts: &mut Parts) -> Result<Principal, AccessDenied> {
        let caller = match &self.0.authenticator {
            Some(authenticator) => {
                let caller = authenticator.authenticate(&parts.headers, &self.0.cookie).await;
                caller.map_err(AccessDenied::Credentials)?
            }
            None => Caller::local(),
        };
        if let Some(key) = &caller.rate_limit_key {
            self.0.rates.acquire(key).map_err(AccessDenied::RateLimited)?;
        }
        if self.declares_large_body(parts) {
            return Err(AccessDenied::BodyTooLarge(self.0.limits.body));
        }
        if !owns_path(parts, &caller.principal).await {
            return Err(AccessDenied::OtherUser);
        }
        Ok(caller.principal)
    }

    fn declares_large_body(&self, parts: &Parts) -> bool {
        let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.and_then(|length| length.parse::<u64>().ok());
        length.is_some_and(|length| length > self.0.limits.body as u64)
    }
}

/// Whether the principal may access the user in the path. Another user's resources answer 404, so that their existence is not
/// revealed.
async fn owns_path(parts: &mut Parts, principal: &Principal) -> bool {
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).await else {
        // A path that is not UTF-8 names no user.
        return principal.user.is_none();
    };
    params.iter().filter(|(name, _)| *name == USER).all(|(_, user)| principal.may_access(user))
}

/// The outer layer: checks Host and Origin, answers CORS preflights and limits the body.
pub(crate) async fn check_host(
    State(access): State<AccessControl>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<PeerAddr>().map(|peer| peer.0.ip());
    let origin = match access.0.host_policy.check(request.uri(), request.headers(), peer) {
        Ok(origin) => origin,
        Err(violation) => return violation.into_response(),
    };
    if let Some(response) = origin.preflight(request.method(), request.headers()) {
        return response;
    }
    let body_limit = access.0.limits.body;
    DefaultBodyLimit::max(body_limit).apply(&mut request);
    request.extensions_mut().insert(origin.clone());
    request.extensions_mut().insert(access);
    let mut response = next.run(request).await;
    // A body without a content length exceeds the limit while it is read.
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        response = AccessDenied::BodyTooLarge(body_limit).into_response();
    }
    origin.add_cors_headers(&mut response);
    response
}

/// The inner layer: inserts the [`Principal`] of the request, or refuses it.
pub(crate) async fn authenticate(
    State(access): State<AccessControl>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match access.authorize(&mut parts).await {
        Ok(principal) => {
            parts.extensions.insert(principal);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(denied) => denied.into_response(),
    }
}

#[derive(Debug)]
enum AccessDenied {
    Credentials(CredentialError),
    OtherUser,
    BodyTooLarge(usize),
    RateLimited(Duration),
}

const MISSING_TOKEN: &str = "authentication required: send a token as `Authorization: Bearer TOKEN`, or open the link that \
     `lango serve` prints";
const INVALID_TOKEN: &str = "the token is unknown, expired or revoked";

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        let with_header = |error: ApiError, name: header::HeaderName, value: HeaderValue| {
            let mut response = error.into_response();
            response.headers_mut().insert(name, value);
            response
        };
        match self {
            Self::Credentials(error) => {
                let (detail, challenge) = match error {
                    CredentialError::Missing => (MISSING_TOKEN, "Bearer realm=\"lango\""),
                    CredentialError::Invalid => {
                        (INVALID_TOKEN, "Bearer realm=\"lango\", error=\"invalid_token\"")
                    }
                };
                let error = ApiError::new(StatusCode::UNAUTHORIZED, detail);
                with_header(error, header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
            }
            Self::OtherUser => ApiError::not_found("Session not found").into_response(),
            Self::BodyTooLarge(limit) => {
                let detail = format!("the body exceeds the limit of {limit} bytes");
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
            }
            Self::RateLimited(wait) => {
                let detail = "rate limit of this token reached; see Retry-After";
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail);
                with_header(error, header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1))
            }
        }
    }
}
