//! Error responses in FastAPI's format.

use adk::error::{ServiceError, StoreFault};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// An error response: a status and `{"detail": …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    pub detail: Value,
    /// A stable identifier of the error, sent beside the detail.
    pub kind: Option<&'static str>,
    /// Seconds after which the client may retry.
    pub retry_after: Option<u32>,
}

impl ApiError {
    pub fn new(status: StatusCode, detail: impl Into<Value>) -> Self {
        Self { status, detail: detail.into(), kind: None, retry_after: None }
    }

    /// The response to a store failure. The cause may name files of the machine, so only the log has it.
    pub(crate) fn from_store_fault(fault: StoreFault) -> Self {
        let (status, retry_after) = match fault {
            StoreFault::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, None),
            StoreFault::Locked => (StatusCode::SERVICE_UNAVAILABLE, Some(5)),
            StoreFault::Overloaded | StoreFault::Unreachable | StoreFault::Io | StoreFault::Closed => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(1))
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        Self { kind: Some(fault.as_str()), retry_after, ..Self::new(status, fault.to_string()) }
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

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NotFound(_) => Self::not_found("Session not found"),
            ServiceError::Exists(key) => {
                Self::conflict(format!("Session already exists: {}", key.session_id))
            }
            ServiceError::QuotaReached { .. } => {
                let response = Self::new(StatusCode::FORBIDDEN, error.to_string());
                Self { kind: Some("session_quota"), ..response }
            }
            ServiceError::Stale(_) => Self::conflict(error.to_string()),
            ServiceError::Invalid { .. } => Self::bad_request(error.to_string()),
            ServiceError::Damaged { .. } => {
                let response = Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
                Self { kind: Some("damaged_session"), ..response }
            }
            ServiceError::Store(error) => Self::from_store_fault(error.fault),
            _ => Self::from_store_fault(StoreFault::Other),
        }
    }
}

/// A response that cannot be serialized.
impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the response cannot be serialized: {error}"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({ "detail": self.detail });
        if let Some(kind) = self.kind {
            body["kind"] = kind.into();
        }
        let json = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, json, body.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adk::{error::StoreError, session::SessionKey};

    #[test]
    fn each_store_fault_maps_to_a_status_and_a_kind() {
        let table = [
            (StoreFault::DiskFull, 507, None, "disk_full"),
            (StoreFault::ReadOnly, 500, None, "read_only"),
            (StoreFault::Locked, 503, Some("5"), "locked"),
            (StoreFault::Overloaded, 503, Some("1"), "overloaded"),
            (StoreFault::Unreachable, 503, Some("1"), "unreachable"),
            (StoreFault::Io, 503, Some("1"), "io_error"),
            (StoreFault::Damaged, 500, None, "damaged"),
            (StoreFault::Deleted, 500, None, "deleted"),
            (StoreFault::Replaced, 500, None, "replaced"),
            (StoreFault::Detached, 500, None, "detached"),
            (StoreFault::Closed, 503, Some("1"), "closed"),
            (StoreFault::Other, 500, None, "store_failed"),
        ];
        for (fault, status, retry_after, kind) in table {
            let error = ServiceError::from(StoreError::new(fault, "/srv/lango.db cannot be written"));
            let error = ApiError::from(error);
            assert!(!error.detail.to_string().contains("/srv"), "{error:?}");
            assert_eq!((error.status.as_u16(), error.kind), (status, Some(kind)));
            let response = error.into_response();
            let header = response.headers().get(header::RETRY_AFTER).map(|seconds| seconds.to_str().unwrap());
            assert_eq!(header, retry_after, "{fault:?}");
        }
    }

    #[test]
    fn the_error_of_a_damaged_session_names_the_session_and_no_file() {
        let key = SessionKey::new("app", "user", "s-1");
        let source = "page 7 of /srv/lango.db".into();
        let error = ApiError::from(ServiceError::Damaged { key, source });
        assert_eq!((error.status.as_u16(), error.kind), (500, Some("damaged_session")));
        let detail = error.detail.as_str().unwrap();
        assert!(detail.contains("session s-1 is damaged") && !detail.contains("/srv"), "{detail}");
    }
}
