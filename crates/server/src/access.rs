//! The middleware of the routes: `check_host` for every route, then `authenticate` for those that need a principal.
//!
//! The route table, not the request path, decides which routes need a principal, so that the router can be nested.

use crate::{
    auth::{Authenticator, Caller, CredentialError, cookie},
    concurrency::{ConcurrencyLimiter, ConcurrencyPermit},
    connection::{address::AddressKey, paced_body::PacedBody, table::Connection},
    error::ApiError,
    guarded_body::GuardedBody,
    host_policy::{HostPolicy, HostPolicyViolation, RequestOrigin},
    limits::{RateLimiter, ServerLimits},
    path_params::USER,
    principal::Principal,
    proxy::forwarded_client,
};
use axum::{
    body::Body,
    extract::{FromRequestParts, MatchedPath, NestedPath, RawPathParams, Request, State},
    http::{Extensions, HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use lock::LockExt;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

/// The route that answers above every limit of connections.
pub(crate) const HEALTH: &str = "/health";

/// The address of the connection, as a request extension. The connection inserts it; without it, no proxy is trusted.
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
    /// Concurrent requests per user.
    of_users: ConcurrencyLimiter<String>,
    /// Concurrent requests without a principal per client address, behind a proxy.
    of_addresses: ConcurrencyLimiter<AddressKey>,
    cookie: String,
}

impl AccessControl {
    /// Without an authenticator, every client is an administrator.
    pub fn new(host_policy: HostPolicy, authenticator: Option<Authenticator>, limits: ServerLimits) -> Self {
        let rates = RateLimiter::new(limits.requests_per_minute);
        let of_users = ConcurrencyLimiter::new(limits.requests_per_user);
        let of_addresses = ConcurrencyLimiter::new(limits.connections_per_address);
        let cookie = cookie::name(host_policy.address.port());
        let inner =
            AccessControlInner { host_policy, authenticator, limits, rates, of_users, of_addresses, cookie };
        Self(Arc::new(inner))
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

    /// Whether a request has the credentials of an administrator. For public routes that show administrators more.
    pub(crate) async fn is_administrator(&self, headers: &HeaderMap) -> bool {
        match &self.0.authenticator {
            Some(authenticator) => {
                let caller = authenticator.authenticate(headers, &self.0.cookie).await;
                caller.is_ok_and(|caller| caller.principal.admin)
            }
            None => true,
        }
    }

    /// Authenticates a request and checks its limits and the owner of its path. The permit counts the request until its
    /// response is sent.
    async fn authorize(&self, parts: &mut Parts) -> Result<(Principal, Option<UserPermit>), AccessDenied> {
        if parts.extensions.get::<RequestOrigin>().is_some_and(|origin| origin.is_cross_site) {
            return Err(AccessDenied::CrossSite);
        }
        let identified = parts.extensions.remove::<IdentifiedCaller>();
        let IdentifiedCaller { caller, permit } = match identified {
            Some(identified) => identified,
            None => self.identify(&parts.headers).await?,
        };
        // From now on the request counts for its user, not for its address.
        if let Some(connection) = parts.extensions.get::<Arc<Connection>>() {
            connection.authenticated();
        }
        parts.extensions.remove::<AddressPermit>().map(|permit| permit.0.locked().take());
        if self.declares_large_body(parts) {
            return Err(AccessDenied::BodyTooLarge(self.0.limits.body));
        }
        if !owns_path(parts, &caller.principal).await {
            return Err(AccessDenied::OtherUser);
        }
        Ok((caller.principal, permit))
    }

    /// Authenticates a request and counts it for its user.
    async fn identify(&self, headers: &HeaderMap) -> Result<IdentifiedCaller, AccessDenied> {
        let caller = match &self.0.authenticator {
            Some(authenticator) => {
                let caller = authenticator.authenticate(headers, &self.0.cookie).await;
                caller.map_err(AccessDenied::Credentials)?
            }
            None => Caller::local(),
        };
        if let Some(key) = &caller.rate_limit_key {
            self.0.rates.acquire(key).map_err(AccessDenied::RateLimited)?;
        }
        let permit = self.user_permit(&caller)?;
        Ok(IdentifiedCaller { caller, permit })
    }

    /// Identifies the caller of a request above a limit of anonymous requests. It waits for nothing, so that such requests cannot
    /// accumulate: a JWT whose key must be fetched first is refused.
    fn identify_now(
        &self,
        headers: &HeaderMap,
        origin: &RequestOrigin,
        limit: AccessDenied,
    ) -> Result<IdentifiedCaller, AccessDenied> {
        if origin.is_cross_site {
            return Err(limit);
        }
        match self.identify(headers).now_or_never() {
            Some(Err(AccessDenied::Credentials(_))) | None => Err(limit),
            Some(identified) => identified,
        }
    }

    /// Applies the limits of connections and addresses to a request.
    fn limit_address(
        &self,
        request: &Request,
        peer: Option<IpAddr>,
        origin: &RequestOrigin,
    ) -> Result<RequestPermits, AccessDenied> {
        let connection = request.extensions().get::<Arc<Connection>>();
        let (headers, is_health) = (request.headers(), is_health(request));
        if let Some(connection) = connection.filter(|connection| connection.is_above_limit() && !is_health) {
            let caller = self.identify_now(headers, origin, AccessDenied::ConnectionLimit)?;
            let permits = RequestPermits { address: None, caller: Some(caller) };
            return if connection.promote() { Ok(permits) } else { Err(AccessDenied::ConnectionLimit) };
        }
        match self.address_permit(headers, peer) {
            Ok(address) => Ok(RequestPermits { address, caller: None }),
            Err(_) if is_health => Ok(RequestPermits::default()),
            Err(limit) => {
                let caller = Some(self.identify_now(headers, origin, limit)?);
                Ok(RequestPermits { address: None, caller })
            }
        }
    }

    /// Counts a request of the caller. `None` for the local administrator, who is not limited.
    fn user_permit(&self, caller: &Caller) -> Result<Option<UserPermit>, AccessDenied> {
        let Some(key) = &caller.rate_limit_key else { return Ok(None) };
        let key = caller.principal.user.as_ref().map_or_else(|| key.clone(), |user| format!("user {user}"));
        let limiter = &self.0.of_users;
        let permit = limiter.acquire(key).ok_or(AccessDenied::TooManyRequests(limiter.limit()))?;
        Ok(Some(Arc::new(permit)))
    }

    /// Counts a request of a proxy for the address of its client. `None` if the client's address is unknown or counted by the
    /// table of connections.
    fn address_permit(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Option<AddressPermit>, AccessDenied> {
        let client = peer.and_then(|peer| forwarded_client(headers, peer, &self.0.host_policy.proxies));
        let Some(client) = client else { return Ok(None) };
        let limiter = &self.0.of_addresses;
        let permit = limiter.acquire(AddressKey::new(client));
        let permit = permit.ok_or(AccessDenied::TooManyRequests(limiter.limit()))?;
        Ok(Some(AddressPermit(Arc::new(Mutex::new(Some(permit))))))
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
    let origin = match access.0.host_policy.check((request.method(), request.uri()), request.headers(), peer)
    {
        Ok(origin) => origin,
        Err(violation) => return violation.into_response(),
    };
    if let Some(response) = origin.preflight(request.method(), request.headers()) {
        return response;
    }
    // The login is for the server's own pages. A page of another origin sends a token.
    if origin.cross_origin.is_some() {
        request.headers_mut().remove(header::COOKIE);
    }
    let permits = match access.limit_address(&request, peer, &origin) {
        Ok(permits) => permits,
        Err(denied) => return denied.into_response(),
    };
    request.extensions_mut().insert(origin.clone());
    let (rate, timeout) = (access.0.limits.min_rate, access.0.limits.body_timeout);
    request.extensions_mut().insert(access);
    permits.clone().insert_into(request.extensions_mut());
    let request = request.map(|body| Body::new(PacedBody::new(body, rate, timeout)));
    let mut response = next.run(request).await;
    // The rest of the body is not read.
    if response.status() == StatusCode::REQUEST_TIMEOUT {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    origin.add_cors_headers(&mut response);
    response.map(|body| GuardedBody::wrap(body, permits))
}

/// `/health` answers above every limit of connections and addresses.
fn is_health(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let mount = request.extensions().get::<NestedPath>().map_or("", NestedPath::as_str);
    route.strip_prefix(mount.trim_end_matches('/')) == Some(HEALTH)
}

/// The inner layer: inserts the [`Principal`] of the request, or refuses it.
pub(crate) async fn authenticate(
    State(access): State<AccessControl>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match access.authorize(&mut parts).await {
        Ok((principal, permit)) => {
            parts.extensions.insert(principal);
            let response = next.run(Request::from_parts(parts, body)).await;
            response.map(|body| GuardedBody::wrap(body, permit))
        }
        Err(denied) => denied.into_response(),
    }
}

type UserPermit = Arc<ConcurrencyPermit<String>>;

/// A caller whose request is counted for its user.
#[derive(Clone)]
struct IdentifiedCaller {
    caller: Caller,
    permit: Option<UserPermit>,
}

/// What counts a request until its response is sent: its address, or its user if the limit of the address is reached.
#[derive(Clone, Default)]
struct RequestPermits {
    address: Option<AddressPermit>,
    caller: Option<IdentifiedCaller>,
}

impl RequestPermits {
    fn insert_into(self, extensions: &mut Extensions) {
        if let Some(permit) = self.address {
            extensions.insert(permit);
        }
        if let Some(caller) = self.caller {
            extensions.insert(caller);
        }
    }
}

/// The permit of a request behind a proxy. It is taken when the request is authenticated.
#[derive(Clone)]
struct AddressPermit(Arc<Mutex<Option<ConcurrencyPermit<AddressKey>>>>);

#[derive(Debug)]
pub(crate) enum AccessDenied {
    CrossSite,
    ConnectionLimit,
    /// The limit of concurrent requests.
    TooManyRequests(usize),
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
        let busy = |detail: String| {
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail);
            ApiError { retry_after: Some(1), ..error }.into_response()
        };
        match self {
            Self::CrossSite => HostPolicyViolation::CrossSite.into_response(),
            Self::ConnectionLimit => busy("connection limit of the server reached; retry later".to_owned()),
            Self::TooManyRequests(limit) => {
                busy(format!("limit of {limit} concurrent requests reached; wait until one ends"))
            }
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
