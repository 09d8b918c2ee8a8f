//! The body of a request: read, validated against its table, and deserialized.

use super::{
    json_size::JsonSize,
    shape::{ObjectShape, Shape, find_key},
    validation_error::{ValidationError, json_syntax_error},
    validator::Validator,
};
use crate::{
    body_budget::{BodyBudget, BodyCharge, BodyError},
    connection::paced_body::SlowBody,
    error::ApiError,
    principal::Principal,
};
use axum::{
    extract::{FromRef, FromRequest, Request},
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

/// The maximum number of values in a body. A value needs many times the memory of its text.
const MAX_VALUES: usize = 50_000;
/// Bodies that need more memory are parsed on a thread for blocking work.
const SLOW_TO_PARSE: usize = 1024 * 1024;

/// The JSON value of a body, with the charge for its memory. `None` if the body is empty or `null`.
#[derive(Debug)]
pub(crate) struct RequestBody {
    value: Option<Value>,
    charge: BodyCharge,
}

impl<S: Sync> FromRequest<S> for RequestBody
where
    BodyBudget: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let principal = parts.extensions.get::<Principal>();
        let user = principal.and_then(|principal| principal.user.as_deref()).unwrap_or_default();
        let budget = BodyBudget::from_ref(state);
        let received = budget.receive(user, body).await?;
        if received.bytes.is_empty() {
            return Ok(Self { value: None, charge: BodyCharge::default() });
        }
        let size = JsonSize::of(&received.bytes);
        let is_json = is_json(&parts.headers);
        if is_json && size.values > MAX_VALUES {
            let detail = format!("the body exceeds the limit of {MAX_VALUES} JSON values");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        let memory = size.memory();
        let (bytes, charge) = budget.charge(user, received, memory).await?;
        if !is_json {
            // A cross-site form can send such a body without a CORS preflight. As a string it fails validation.
            let value = Some(String::from_utf8_lossy(&bytes).into_owned().into());
            return Ok(Self { value, charge });
        }
        let value = if memory > SLOW_TO_PARSE {
            let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the body cannot be parsed");
            tokio::task::spawn_blocking(move || parse(&bytes)).await.map_err(failed)??
        } else {
            parse(&bytes)?
        };
        Ok(Self { value: Some(value).filter(|value| !value.is_null()), charge })
    }
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| json_syntax_error(bytes, &error).into())
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let detail = error.to_string();
        match error {
            BodyError::TooLarge(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
            BodyError::NoMemory => {
                Self { retry_after: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
            }
            BodyError::Transfer(error) if SlowBody::is_cause_of(&error) => {
                Self::new(StatusCode::REQUEST_TIMEOUT, SlowBody.to_string())
            }
            BodyError::Transfer(_) => Self::bad_request(detail),
        }
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

/// The methods return the charge beside the body: it is dropped when the body was stored, and before anything waits for a client.
impl RequestBody {
    pub(crate) fn required<T: BodyType>(self) -> Result<(T, BodyCharge), ApiError> {
        let (body, charge) = self.optional()?;
        let missing = || ValidationError::missing(&["body".into()], Value::Null);
        Ok((body.ok_or_else(missing)?, charge))
    }

    pub(crate) fn optional<T: BodyType>(self) -> Result<(Option<T>, BodyCharge), ApiError> {
        let (map, charge) = self.validate(&Shape::Object(T::SHAPE))?;
        Ok((map.map(deserialize).transpose()?, charge))
    }

    /// The number of items of a list in the body; zero if there is none.
    pub(crate) fn count(&self, field: &'static str) -> usize {
        let map = self.value.as_ref().and_then(Value::as_object);
        let items = map.and_then(|map| map[&find_key(map, field)?].as_array());
        items.map_or(0, Vec::len)
    }

    /// A body that is a dictionary with arbitrary keys.
    pub(crate) fn dict(self) -> Result<(Map<String, Value>, BodyCharge), ApiError> {
        let (map, charge) = self.validate(&Shape::Dict)?;
        Ok((map.unwrap_or_default(), charge))
    }

    fn validate(self, shape: &Shape) -> Result<(Option<Map<String, Value>>, BodyCharge), ApiError> {
        let Some(mut value) = self.value else { return Ok((None, self.charge)) };
        let mut validator = Validator::new("body");
        validator.check(&mut value, shape);
        match value {
            Value::Object(map) if validator.errors.is_empty() => Ok((Some(map), self.charge)),
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
    // The tables reject what the structs reject, so the parser's own message is of no use to a client.
    T::deserialize(fields).map_err(|_| {
        let loc: Vec<Value> = ["body"].into_iter().chain(current).map(Value::from).collect();
        ValidationError::new(
            "value_error",
            &loc,
            "Value error, a value in this field has the wrong type",
            Value::Null,
        )
        .into()
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
