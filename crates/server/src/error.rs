//! What is wrong, in FastAPI's shapes.

use adk::error::ServiceError;
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// An answer that is not the one that was asked for: `{"detail": …}` with a status.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub status: StatusCode,
    pub detail: Value,
}

impl Failure {
    pub fn new(status: StatusCode, detail: impl Into<Value>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub fn bad_request(detail: impl Into<Value>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn not_found(detail: impl Into<Value>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub fn conflict(detail: impl Into<Value>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NotFound(_) => Self::not_found("Session not found"),
            ServiceError::Exists(key) => {
                Self::conflict(format!("Session already exists: {}", key.session_id))
            }
            ServiceError::Stale(_) => Self::conflict(error.to_string()),
            ServiceError::Invalid { .. } => Self::bad_request(error.to_string()),
            // The cause may name files of this machine; it is for the log.
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the session's store failed"),
        }
    }
}

/// An answer that cannot be written.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the answer cannot be written: {error}"))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "detail": self.detail }).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
