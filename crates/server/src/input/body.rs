//! The body of a request: read, validated against its table, and deserialized.

use super::{
    shape::{ObjectShape, Shape, find_key},
    validation_error::{ValidationError, json_syntax_error},
    validator::Validator,
};
use crate::{connection::paced_body::SlowBody, error::ApiError};
use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor},
};
use serde_json::{Map, Value};
use std::vec;

/// A request body: the table that validates it and the struct that holds it.
pub(crate) trait BodyType: DeserializeOwned {
    const SHAPE: &'static ObjectShape;
}

/// The JSON value of a body. `None` if the body is empty or `null`.
#[derive(Debug)]
pub(crate) struct RequestBody(Option<Value>);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.status();
            if SlowBody::is_cause_of(&rejection) {
                return ApiError::new(StatusCode::REQUEST_TIMEOUT, SlowBody.to_string());
            }
            let detail = if status == StatusCode::PAYLOAD_TOO_LARGE {
                "the body exceeds the size limit"
            } else {
                "the body cannot be read"
            };
            ApiError::new(status, detail)
        })?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        if !is_json {
            // A cross-site form can send such a body without a CORS preflight. As a string it fails validation.
            return Ok(Self(Some(String::from_utf8_lossy(&bytes).into_owned().into())));
        }
        let value = serde_json::from_slice(&bytes).map_err(|error| json_syntax_error(&bytes, &error))?;
        Ok(Self(Some(value).filter(|value: &Value| !value.is_null())))
    }
}

/// Whether the content type is JSON. A body without a content type counts as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(header::CONTENT_TYPE) else { return true };
    let content_type = content_type.to_str().unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

impl RequestBody {
    pub(crate) fn required<T: BodyType>(self) -> Result<T, ApiError> {
        self.optional()?.ok_or_else(|| ValidationError::missing(&["body".into()], Value::Null).into())
    }

    pub(crate) fn optional<T: BodyType>(self) -> Result<Option<T>, ApiError> {
        self.validate(&Shape::Object(T::SHAPE))?.map(deserialize).transpose()
    }

    /// A body that is a dictionary with arbitrary keys.
    pub(crate) fn dict(self) -> Result<Map<String, Value>, ApiError> {
        Ok(self.validate(&Shape::Dict)?.unwrap_or_default())
    }

    fn validate(self, shape: &Shape) -> Result<Option<Map<String, Value>>, ApiError> {
        let Some(mut value) = self.0 else { return Ok(None) };
        let mut validator = Validator::new("body");
        validator.check(&mut value, shape);
        match value {
            Value::Object(map) if validator.errors.is_empty() => Ok(Some(map)),
            _ => Err(validator.errors.into()),
        }
    }
}

/// Deserializes a validated body. The types of ADK reject a few values that their tables accept; such a value is a validation
/// error of its field.
fn deserialize<T: BodyType>(mut map: Map<String, Value>) -> Result<T, ApiError> {
    let fields = T::SHAPE.fields.iter().filter_map(|field| {
        let key = find_key(&map, field.name)?;
        Some((field.name, map.swap_remove(&key)?))
    });
    let mut current = None;
    let fields =
        BodyFields { fields: fields.collect::<Vec<_>>().into_iter(), value: None, current: &mut current };
    T::deserialize(fields).map_err(|error| {
        let loc: Vec<Value> = ["body"].into_iter().chain(current).map(Value::from).collect();
        ValidationError::new("value_error", &loc, format!("Value error, {error}"), Value::Null).into()
    })
}

/// Deserializes a struct from the fields of a body under their camelCase names. `current` is the field that an error is about.
struct BodyFields<'a> {
    fields: vec::IntoIter<(&'static str, Value)>,
    value: Option<Value>,
    current: &'a mut Option<&'static str>,
}

impl<'de> Deserializer<'de> for BodyFields<'_> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_map(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for BodyFields<'_> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        *self.current = Some(name);
        self.value = Some(value);
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        let value = self.value.take().ok_or_else(|| Self::Error::custom("a value without its key"))?;
        seed.deserialize(value)
    }
}
