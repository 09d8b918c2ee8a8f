//! One thing that is wrong with a request, in pydantic's words.

use crate::error::ApiError;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidationError {
    pub(crate) kind: &'static str,
    /// From the outermost: `body`, then names and numbers.
    pub(crate) place: Vec<Value>,
    pub(crate) message: String,
    pub(crate) input: Value,
    pub(crate) context: Option<Value>,
}

impl ValidationError {
    pub(crate) fn new(
        kind: &'static str,
        place: &[Value],
        message: impl Into<String>,
        input: impl Into<Value>,
    ) -> Self {
        Self { kind, place: place.to_vec(), message: message.into(), input: input.into(), context: None }
    }

    pub(crate) fn missing(place: &[Value], input: impl Into<Value>) -> Self {
        Self::new("missing", place, "Field required", input)
    }

    fn into_json(self) -> Value {
        let mut wrong = Map::new();
        wrong.insert("type".to_owned(), self.kind.into());
        wrong.insert("loc".to_owned(), self.place.into());
        wrong.insert("msg".to_owned(), self.message.into());
        wrong.insert("input".to_owned(), self.input);
        if let Some(context) = self.context {
            wrong.insert("ctx".to_owned(), context);
        }
        wrong.into()
    }
}

/// All of them at once.
impl From<Vec<ValidationError>> for ApiError {
    fn from(all: Vec<ValidationError>) -> Self {
        let list: Vec<Value> = all.into_iter().map(ValidationError::into_json).collect();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, list)
    }
}

impl From<ValidationError> for ApiError {
    fn from(one: ValidationError) -> Self {
        vec![one].into()
    }
}

/// JSON that cannot be read, at the place and in the words of Python's reader.
pub(crate) fn unreadable(bytes: &[u8], error: &serde_json::Error) -> ValidationError {
    let before: usize =
        bytes.split(|byte| *byte == b'\n').take(error.line() - 1).map(|line| line.len() + 1).sum();
    let at = if error.is_eof() { bytes.len() } else { before + error.column().saturating_sub(1) };
    let said = error.to_string();
    let words = [
        ("trailing characters", "Extra data"),
        ("key must be a string", "Expecting property name enclosed in double quotes"),
        ("trailing comma", "Illegal trailing comma before end of object"),
        ("expected `:`", "Expecting ':' delimiter"),
        ("expected `,`", "Expecting ',' delimiter"),
        ("EOF while parsing an object", "Expecting property name enclosed in double quotes"),
        ("EOF while parsing a list", "Expecting ',' delimiter"),
        ("EOF while parsing a string", "Unterminated string starting at"),
        ("control character", "Invalid control character at"),
        ("invalid escape", "Invalid \\escape"),
    ];
    let word =
        words.iter().find(|(ours, _)| said.starts_with(ours)).map_or("Expecting value", |(_, python)| python);
    ValidationError {
        context: Some(json!({ "error": word })),
        ..ValidationError::new("json_invalid", &["body".into(), at.into()], "JSON decode error", json!({}))
    }
}
