//! The handlers of the routes, by resource.

mod agent_tools;
pub(crate) mod apps;
pub(crate) mod artifacts;
pub(crate) mod dev;
pub(crate) mod dev_ui;
pub(crate) mod graph;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod traces;
pub(crate) mod usage;

use crate::error::ApiError;
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// A response body that is serialized as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => json_response(body),
            Err(error) => ApiError::from(error).into_response(),
        }
    }
}

/// A response whose body is already JSON.
pub(crate) fn json_response(body: impl Into<axum::body::Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

pub(crate) fn null_response() -> Response {
    json_response("null")
}
