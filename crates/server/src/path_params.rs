//! What the path says, and whether the caller may go there: another user's things are not there at all.

use crate::{error::ApiError, principal::Principal};
use adk::session::SessionKey;
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};

/// The named pieces of a path, decoded.
#[derive(Debug)]
pub(crate) struct PathParams(Vec<(String, String)>);

impl PathParams {
    /// Empty if the route has no such piece.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    fn take(&mut self, name: &str) -> String {
        let found = self.0.iter_mut().find(|(key, _)| key == name);
        found.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let raw = RawPathParams::from_request_parts(parts, state).await;
        let raw = raw.map_err(|_| ApiError::bad_request("the path is not text"))?;
        Ok(Self(raw.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()))
    }
}

/// A user of an app.
#[derive(Debug)]
pub(crate) struct UserPath {
    pub(crate) app: String,
    pub(crate) user: String,
}

impl<S: Send + Sync> FromRequestParts<S> for UserPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let mut params = PathParams::from_request_parts(parts, state).await?;
        let place = Self { app: params.take("app"), user: params.take("user") };
        allowed(parts, state, &place.user).await?;
        Ok(place)
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct SessionPath(pub(crate) SessionKey);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let mut params = PathParams::from_request_parts(parts, state).await?;
        let key = SessionKey::new(params.take("app"), params.take("user"), params.take("session"));
        allowed(parts, state, &key.user_id).await?;
        Ok(Self(key))
    }
}

async fn allowed<S: Send + Sync>(parts: &mut Parts, state: &S, user: &str) -> Result<(), ApiError> {
    let principal = Principal::from_request_parts(parts, state).await?;
    if principal.may_be(user) { Ok(()) } else { Err(ApiError::not_found("Session not found")) }
}
