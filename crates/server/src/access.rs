//! What stands before every route: the guard, then who asks, then how much they may have.

use crate::{
    auth::{Authenticator, Caller, CredentialError, cookie},
    error::ApiError,
    host_policy::HostPolicy,
    limits::{RateLimiter, ServerLimits},
    principal::Principal,
};
use axum::{
    body::Body,
    extract::{DefaultBodyLimit, FromRequestParts, MatchedPath, RawPathParams, Request, State},
    http::{HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// Where a request came from; the connection says so.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// Who may do what. Its clones are the same.
#[derive(Clone, Debug)]
pub struct AccessControl(Arc<AccessControlInner>);

#[derive(Debug)]
struct AccessControlInner {
    guard: HostPolicy,
    /// Without it everybody is the administrator.
    auth: Option<Authenticator>,
    limits: ServerLimits,
    rates: RateLimiter,
    cookie: String,
}

impl AccessControl {
    pub fn new(guard: HostPolicy, auth: Option<Authenticator>, limits: ServerLimits) -> Self {
        let rates = RateLimiter::new(limits.requests_per_minute);
        let cookie = cookie::name(guard.address.port());
        Self(Arc::new(AccessControlInner { guard, auth, limits, rates, cookie }))
    }

    pub fn limits(&self) -> &ServerLimits {
        &self.0.limits
    }

    pub fn auth(&self) -> Option<&Authenticator> {
        self.0.auth.as_ref()
    }

    /// The name of a browser's cookie here.
    pub fn cookie(&self) -> &str {
        &self.0.cookie
    }

    /// Lets a request in, or says why not.
    async fn enter(&self, parts: &mut Parts) -> Result<(), AccessDenied> {
        if is_open(parts) {
            return Ok(());
        }
        let caller = match &self.0.auth {
            Some(auth) => auth
                .authenticate(&parts.headers, &self.0.cookie)
                .await
                .map_err(AccessDenied::CredentialError)?,
            None => Caller::local(),
        };
        if let Some(name) = &caller.rate_limit_key {
            self.0.rates.acquire(name).map_err(AccessDenied::TooMany)?;
        }
        if self.is_too_large(parts) {
            return Err(AccessDenied::TooLarge(self.0.limits.body));
        }
        if !asks_for_own(parts, &caller.principal).await {
            return Err(AccessDenied::NotTheirs);
        }
        parts.extensions.insert(caller.principal);
        Ok(())
    }

    fn is_too_large(&self, parts: &Parts) -> bool {
        let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.and_then(|length| length.parse::<u64>().ok());
        length.is_some_and(|length| length > self.0.limits.body as u64)
    }
}

/// Whether anybody may ask: how the server is, the way in, the description of the API, and the files of
/// ADK's page, which hold nothing of anybody's.
fn is_open(parts: &Parts) -> bool {
    let Some(route) = parts.extensions.get::<MatchedPath>() else { return false };
    let route = route.as_str();
    match route {
        "/login" => parts.method == Method::GET,
        "/" | "/health" | "/readyz" | "/dev-ui" | "/openapi.json" | "/docs" => true,
        _ => route.starts_with("/dev-ui/"),
    }
}

/// Whether the user in the path is the principal: whoever it is of others, they are as unknown as a session that is not there.
async fn asks_for_own(parts: &mut Parts, principal: &Principal) -> bool {
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).await else {
        // An address that is no text is nobody's.
        return principal.user.is_none();
    };
    params.iter().filter(|(name, _)| name.starts_with("user")).all(|(_, user)| principal.may_access(user))
}

/// The layer around all routes.
pub(crate) async fn admit(State(access): State<AccessControl>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<PeerAddr>().map(|peer| peer.0.ip());
    let passed = match access.0.guard.check(&parts.uri, &parts.headers, peer) {
        Ok(passed) => passed,
        Err(foreign) => return foreign.into_response(),
    };
    if let Some(answer) = passed.preflight(&parts.method, &parts.headers) {
        return answer;
    }
    parts.extensions.insert(passed.clone());
    parts.extensions.insert(access.clone());
    let mut answer = match access.enter(&mut parts).await {
        Ok(()) => access.answer(Request::from_parts(parts, body), next).await,
        Err(refusal) => refusal.into_response(),
    };
    passed.add_cors_headers(&mut answer);
    answer
}

impl AccessControl {
    async fn answer(&self, mut request: Request<Body>, next: Next) -> Response {
        let most = self.0.limits.body;
        DefaultBodyLimit::max(most).apply(&mut request);
        let answer = next.run(request).await;
        // A body that did not say how long it is.
        match answer.status() {
            StatusCode::PAYLOAD_TOO_LARGE => AccessDenied::TooLarge(most).into_response(),
            _ => answer,
        }
    }
}

#[derive(Debug)]
enum AccessDenied {
    CredentialError(CredentialError),
    NotTheirs,
    TooLarge(usize),
    TooMany(Duration),
}

const NO_TOKEN: &str = "authentication required: send a token as `Authorization: Bearer TOKEN`, or open the link that \
     `lango serve` prints";
const BAD_TOKEN: &str = "the token is unknown, expired or revoked";

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        let with = |failure: ApiError, name: header::HeaderName, value: HeaderValue| {
            let mut answer = failure.into_response();
            answer.headers_mut().insert(name, value);
            answer
        };
        match self {
            Self::CredentialError(stranger) => {
                let (detail, challenge) = match stranger {
                    CredentialError::Missing => (NO_TOKEN, "Bearer realm=\"lango\""),
                    CredentialError::Invalid => {
                        (BAD_TOKEN, "Bearer realm=\"lango\", error=\"invalid_token\"")
                    }
                };
                let failure = ApiError::new(StatusCode::UNAUTHORIZED, detail);
                with(failure, header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
            }
            Self::NotTheirs => ApiError::not_found("Session not found").into_response(),
            Self::TooLarge(most) => {
                let detail = format!("the body exceeds the limit of {most} bytes");
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
            }
            Self::TooMany(wait) => {
                let detail = "rate limit of this token reached; see Retry-After";
                let failure = ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail);
                with(failure, header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1))
            }
        }
    }
}
