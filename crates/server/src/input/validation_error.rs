//! Validation errors in pydantic's format, and JSON syntax errors in the wording of Python's parser.

use crate::error::ApiError;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

/// One error of a request. Kind and message are pydantic's, byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidationError {
    pub(crate) kind: &'static str,
    /// The path to the invalid value: `body` or `query`, then field names and list indexes.
    pub(crate) loc: Vec<Value>,
    pub(crate) message: String,
    pub(crate) input: Value,
    pub(crate) context: Option<Value>,
}

impl ValidationError {
    pub(crate) fn new(
        kind: &'static str,
        loc: &[Value],
        message: impl Into<String>,
        input: impl Into<Value>,
    ) -> Self {
        Self { kind, loc: loc.to_vec(), message: message.into(), input: input.into(), context: None }
    }

    pub(crate) fn missing(loc: &[Value], input: impl Into<Value>) -> Self {
        Self::new("missing", loc, "Field required", input)
    }

    fn into_json(self) -> Value {
        let mut fields = Map::new();
        fields.insert("type".to_owned(), self.kind.into());
        fields.insert("loc".to_owned(), self.loc.into());
        fields.insert("msg".to_owned(), self.message.into());
        fields.insert("input".to_owned(), self.input);
        if let Some(context) = self.context {
            fields.insert("ctx".to_owned(), context);
        }
        fields.into()
    }
}

/// A response with all errors of a request.
impl From<Vec<ValidationError>> for ApiError {
    fn from(errors: Vec<ValidationError>) -> Self {
        let list: Vec<Value> = errors.into_iter().map(ValidationError::into_json).collect();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, list)
    }
}

impl From<ValidationError> for ApiError {
    fn from(error: ValidationError) -> Self {
        vec![error].into()
    }
}

/// The error of a body that is not valid JSON, with the offset and the wording of Python's `json` module.
pub(crate) fn json_syntax_error(bytes: &[u8], error: &serde_json::Error) -> ValidationError {
    let line_start: usize =
        bytes.split(|byte| *byte == b'\n').take(error.line() - 1).map(|line| line.len() + 1).sum();
    let offset = if error.is_eof() { bytes.len() } else { line_start + error.column().saturating_sub(1) };
    let serde_message = error.to_string();
    let messages = [
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
    let message = messages
        .iter()
        .find(|(serde, _)| serde_message.starts_with(serde))
        .map_or("Expecting value", |(_, python)| python);
    ValidationError {
        context: Some(json!({ "error": message })),
        ..ValidationError::new(
            "json_invalid",
            &["body".into(), offset.into()],
            "JSON decode error",
            json!({}),
        )
    }
}
