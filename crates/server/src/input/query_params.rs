//! What stands behind the question mark.

use super::{shape::read_flag, validation_error::ValidationError};
use crate::error::ApiError;
use axum::{extract::FromRequestParts, http::request::Parts};
use serde_json::Value;
use std::convert::Infallible;

#[derive(Debug)]
pub(crate) struct QueryParams(String);

impl<S: Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.uri.query().unwrap_or_default().to_owned()))
    }
}

impl QueryParams {
    /// The last value of that name, as it is meant.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.rfind(|(key, _)| *key == name).map(|(_, value)| decoded(value))
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let message = "Input should be a valid integer, unable to parse string as an integer";
        let wrong =
            || ValidationError::new("int_parsing", &["query".into(), name.into()], message, text.clone());
        text.parse().map(Some).map_err(|_| wrong().into())
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        let Some(text) = self.text(name) else { return Ok(false) };
        let message = "Input should be a valid boolean, unable to interpret input";
        let read = read_flag(&Value::from(text.as_str()));
        let wrong = || ValidationError::new("bool_parsing", &["query".into(), name.into()], message, text);
        read.ok_or_else(|| wrong().into())
    }
}

/// Without the escapes of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        rest = if escaped.is_some() { &after[2..] } else { after };
        bytes.push(escaped.unwrap_or(if first == b'+' { b' ' } else { first }));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
