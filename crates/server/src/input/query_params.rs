//! The query string of a request. Values are validated as FastAPI does.

use super::{validation_error::ValidationError, validator::parse_flag};
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
    /// The decoded value of a parameter. If it is repeated, the last one wins.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let last = form_urlencoded::parse(self.0.as_bytes()).filter(|(key, _)| key == name).last();
        last.map(|(_, value)| value.into_owned())
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let message = "Input should be a valid integer, unable to parse string as an integer";
        let error =
            || ValidationError::new("int_parsing", &["query".into(), name.into()], message, text.clone());
        text.parse().map(Some).map_err(|_| error().into())
    }

    /// `false` if the parameter is absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        let Some(text) = self.text(name) else { return Ok(false) };
        let message = "Input should be a valid boolean, unable to interpret input";
        let flag = parse_flag(&Value::from(text.as_str()));
        let error = || ValidationError::new("bool_parsing", &["query".into(), name.into()], message, text);
        flag.ok_or_else(|| error().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_percent_decoded_and_the_last_of_a_repeated_parameter_wins() {
        let table = [
            ("after=1&after=2", Some("2")),
            ("after=a%2Fb+c%20d", Some("a/b c d")),
            ("%61fter=x", Some("x")),
            ("after=%zz%4", Some("%zz%4")),
            ("after=%ff", Some("\u{fffd}")),
            ("after=a=b", Some("a=b")),
            ("after=", Some("")),
            ("after", Some("")),
            ("before=1&aft=2", None),
            ("", None),
        ];
        for (query, value) in table {
            assert_eq!(QueryParams(query.to_owned()).text("after").as_deref(), value, "{query}");
        }
    }

    #[test]
    fn invalid_numbers_and_booleans_are_validation_errors() {
        let query = QueryParams("limit=-1&detailed=maybe".to_owned());
        for (error, kind) in [
            (query.number("limit").unwrap_err(), "int_parsing"),
            (query.flag("detailed").unwrap_err(), "bool_parsing"),
        ] {
            assert_eq!((error.status.as_u16(), &error.detail[0]["type"]), (422, &Value::from(kind)));
        }
        assert_eq!((query.number("after").unwrap(), query.flag("other").unwrap()), (None, false));
    }
}
