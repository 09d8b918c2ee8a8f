//! The body of a request.

use super::{
    shape::{ObjectShape, Shape, Validator, key_of},
    validation_error::{ValidationError, unreadable},
};
use crate::error::ApiError;
use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::timeout;

/// Whoever takes longer to send a body holds a connection, and says nothing.
const BODY: Duration = Duration::from_mins(2);

/// What was sent; `None` for nothing, or for `null`.
#[derive(Debug)]
pub(crate) struct RequestBody(Option<Value>);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let sent = timeout(BODY, Bytes::from_request(request, state)).await;
        let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come within two minutes");
        let bytes = sent.map_err(|_| late())?.map_err(|rejection| {
            let status = rejection.status();
            let told = if status == StatusCode::PAYLOAD_TOO_LARGE {
                "the body is larger than this server takes"
            } else {
                "the body cannot be read"
            };
            ApiError::new(status, told)
        })?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        if !is_json {
            // As a form of some page could send it without asking anybody.
            return Ok(Self(Some(String::from_utf8_lossy(&bytes).into_owned().into())));
        }
        let value = serde_json::from_slice(&bytes).map_err(|error| unreadable(&bytes, &error))?;
        Ok(Self(Some(value).filter(|value: &Value| !value.is_null())))
    }
}

/// A body without a type is taken for JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(said) = headers.get(header::CONTENT_TYPE) else { return true };
    let said = said.to_str().unwrap_or_default();
    let kind = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

impl RequestBody {
    pub(crate) fn required(self, object: &'static ObjectShape) -> Result<Fields, ApiError> {
        self.optional(object)?.ok_or_else(|| ValidationError::missing(&["body".into()], Value::Null).into())
    }

    pub(crate) fn optional(self, object: &'static ObjectShape) -> Result<Option<Fields>, ApiError> {
        let Some(value) = self.checked(&Shape::Object(object))? else { return Ok(None) };
        Ok(Some(Fields(value)))
    }

    /// A body that is a map as a whole.
    pub(crate) fn map(self) -> Result<Map<String, Value>, ApiError> {
        Ok(self.checked(&Shape::Dict)?.unwrap_or_default())
    }

    fn checked(self, shape: &Shape) -> Result<Option<Map<String, Value>>, ApiError> {
        let Some(mut value) = self.0 else { return Ok(None) };
        let mut check = Validator::new("body");
        check.value(&mut value, shape);
        match value {
            Value::Object(map) if check.found.is_empty() => Ok(Some(map)),
            _ => Err(check.found.into()),
        }
    }
}

/// The fields of a body that was checked, to be taken out by name.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, name: &'static str) -> Option<Value> {
        let key = key_of(&self.0, name)?;
        self.0.swap_remove(&key)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        if let Some(Value::String(text)) = self.take(name) { Some(text) } else { None }
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> bool {
        self.take(name) == Some(Value::Bool(true))
    }

    pub(crate) fn map(&mut self, name: &'static str) -> Option<Map<String, Value>> {
        if let Some(Value::Object(map)) = self.take(name) { Some(map) } else { None }
    }

    /// A value in ADK's types, which are stricter than the check in a few dark corners.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let read = serde_json::from_value(value).map_err(|error| {
            ValidationError::new(
                "value_error",
                &["body".into(), name.into()],
                format!("Value error, {error}"),
                Value::Null,
            )
        });
        Ok(Some(read?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, response::IntoResponse};
    use futures::stream;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = RequestBody::from_request(Request::new(never), &()).await.unwrap_err();
        assert_eq!(refused.into_response().status(), StatusCode::REQUEST_TIMEOUT);
    }
}
