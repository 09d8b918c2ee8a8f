//! Path parameters, deserialized into structs. Resources of another user answer 404, so that their existence is not revealed.

use crate::{error::ApiError, principal::Principal};
use adk::session::SessionKey;
use axum::{
    extract::{FromRequestParts, Path, RawPathParams},
    http::{StatusCode, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};

/// The path parameter that names the owner of a resource.
pub(crate) const USER: &str = "user";

/// The parameters of a route.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        check_owner(parts, state).await?;
        let Path(params) = Path::from_request_parts(parts, state).await.map_err(|rejection| {
            match rejection.status() {
                StatusCode::BAD_REQUEST => invalid_path(),
                // The route has no such parameter.
                status => ApiError::new(status, rejection.body_text()),
            }
        })?;
        Ok(Self(params))
    }
}

/// Checks again what the access layer has checked: a handler without that layer serves no other user's resources.
async fn check_owner<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<(), ApiError> {
    let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| invalid_path())?;
    let Some((_, user)) = params.iter().find(|(name, _)| *name == USER) else { return Ok(()) };
    let principal = Principal::from_request_parts(parts, state).await?;
    if principal.may_access(user) { Ok(()) } else { Err(ApiError::not_found("Session not found")) }
}

fn invalid_path() -> ApiError {
    ApiError::bad_request("the path is not valid UTF-8")
}

#[derive(Debug, Deserialize)]
pub(crate) struct AppPath {
    pub(crate) app: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UserPath {
    pub(crate) app: String,
    pub(crate) user: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SessionPath {
    app: String,
    user: String,
    session: String,
}

impl SessionPath {
    pub(crate) fn key(self) -> SessionKey {
        SessionKey::new(self.app, self.user, self.session)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RunPath {
    #[serde(flatten)]
    pub(crate) session: SessionPath,
    pub(crate) run: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EventPath {
    #[serde(flatten)]
    pub(crate) session: SessionPath,
    pub(crate) event: String,
}

/// A set of ADK's evaluation cases.
#[derive(Debug, Deserialize)]
pub(crate) struct EvalSetPath {
    pub(crate) set: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EvalCasePath {
    pub(crate) set: String,
    pub(crate) case: String,
}

/// A result of ADK's evaluation.
#[derive(Debug, Deserialize)]
pub(crate) struct EvalResultPath {
    pub(crate) result: String,
}

/// An artifact, or a resource below it. The name of an artifact may contain slashes.
#[derive(Debug, Deserialize)]
pub(crate) struct ArtifactPath {
    #[serde(flatten)]
    pub(crate) session: SessionPath,
    pub(crate) path: String,
}

/// The spans of an event, in any session of an app.
#[derive(Debug, Deserialize)]
pub(crate) struct EventTracePath {
    pub(crate) app: String,
    pub(crate) event: String,
}

/// The spans of a session, of any user of an app.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionTracePath {
    pub(crate) app: String,
    pub(crate) session: String,
}

/// A file of the web page; empty for the page itself.
#[derive(Debug, Deserialize)]
pub(crate) struct FilePath {
    #[serde(default)]
    pub(crate) path: String,
}
