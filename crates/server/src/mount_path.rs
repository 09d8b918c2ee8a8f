//! The path that the router is nested under. Links and redirects start with it.

use axum::{
    extract::{FromRequestParts, NestedPath},
    http::request::Parts,
};
use std::convert::Infallible;

/// The argument of [`axum::Router::nest`]; `/` if the router is not nested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountPath(String);

impl MountPath {
    /// The path of the route `/`.
    pub(crate) fn root(&self) -> &str {
        &self.0
    }

    /// The path without a trailing slash: a prefix for other routes, empty if the router is not nested.
    pub(crate) fn prefix(&self) -> &str {
        self.0.trim_end_matches('/')
    }

    /// The full path of a route.
    pub(crate) fn join(&self, route: &str) -> String {
        format!("{}{route}", self.prefix())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MountPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nested = parts.extensions.get::<NestedPath>().map_or("/", NestedPath::as_str);
        Ok(Self(nested.to_owned()))
    }
}
