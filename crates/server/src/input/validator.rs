//! Checks a JSON value against a table and collects every error. Valid values are normalised as pydantic does: optional
//! fields that are `null` are removed, and the words for true and false become booleans.

use super::{
    shape::{FieldShape, ObjectShape, Requirement, Shape, find_key, is_spelling_of},
    validation_error::ValidationError,
};
use serde_json::{Map, Value, json};

/// The most errors that are reported. A list of invalid items would otherwise be answered with a response many times its size.
const MAX_ERRORS: usize = 100;
/// The most bytes of invalid input that the errors of a request repeat.
const MAX_QUOTED_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Validator {
    /// The path to the value that is being checked.
    loc: Vec<Value>,
    pub(crate) errors: Vec<ValidationError>,
    /// The bytes of input that further errors may repeat.
    quotable: usize,
}

impl Validator {
    pub(crate) fn new(root: &str) -> Self {
        Self { loc: vec![root.into()], errors: Vec::new(), quotable: MAX_QUOTED_BYTES }
    }

    pub(crate) fn check(&mut self, value: &mut Value, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Text if value.is_string() => {}
            Shape::Text => self.error("string_type", "Input should be a valid string", value),
            Shape::Number if value.is_number() => {}
            Shape::Number => self.error("float_type", "Input should be a valid number", value),
            Shape::Count => self.check_count(value),
            Shape::Dict if value.is_object() => {}
            Shape::Dict => self.error("dict_type", "Input should be a valid dictionary", value),
            Shape::Flag => self.check_flag(value),
            Shape::Bytes => self.check_bytes(value),
            Shape::List(item) => self.check_list(value, item),
            Shape::Object(object) => self.check_object(value, object),
        }
    }

    fn error(&mut self, kind: &'static str, message: &str, value: &Value) {
        if self.is_full() {
            return;
        }
        let input = self.quote(value);
        self.errors.push(ValidationError::new(kind, &self.loc, message, input));
    }

    fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// A copy of an invalid value, or `"…"` if the errors repeat too much of the input already.
    fn quote(&mut self, value: &Value) -> Value {
        match size_within(value, self.quotable) {
            Some(size) => {
                self.quotable -= size;
                value.clone()
            }
            None => "…".into(),
        }
    }

    fn within(&mut self, segment: impl Into<Value>, check: impl FnOnce(&mut Self)) {
        self.loc.push(segment.into());
        check(self);
        self.loc.pop();
    }

    fn check_list(&mut self, value: &mut Value, item: &Shape) {
        let Value::Array(items) = value else {
            return self.error("list_type", "Input should be a valid list", value);
        };
        for (index, value) in items.iter_mut().enumerate() {
            if self.is_full() {
                return;
            }
            self.within(index, |validator| validator.check(value, item));
        }
    }

    fn check_object(&mut self, value: &mut Value, object: &ObjectShape) {
        let Value::Object(map) = value else {
            let message = "Input should be a valid dictionary or object to extract fields from";
            return self.error("model_attributes_type", message, value);
        };
        for field in object.fields {
            self.check_field(map, field);
        }
        if object.closed {
            let is_known = |key: &str| object.fields.iter().any(|field| is_spelling_of(key, field.name));
            for (key, value) in map.iter().filter(|(key, _)| !is_known(key)).take(MAX_ERRORS) {
                let message = "Extra inputs are not permitted";
                self.within(key.clone(), |validator| validator.error("extra_forbidden", message, value));
            }
        }
    }

    fn check_field(&mut self, map: &mut Map<String, Value>, field: &FieldShape) {
        let Some(key) = find_key(map, field.name) else {
            if field.requirement == Requirement::Required {
                self.missing(map, field.name);
            }
            return;
        };
        // Of two spellings, the other one would be deserialized without validation.
        map.retain(|other, _| *other == key || !is_spelling_of(other, field.name));
        if field.requirement == Requirement::Optional && map[&key].is_null() {
            map.shift_remove(&key);
            return;
        }
        let value = &mut map[&key];
        self.within(key, |validator| validator.check(value, &field.shape));
    }

    fn missing(&mut self, map: &Map<String, Value>, name: &str) {
        if self.is_full() {
            return;
        }
        let size = members_within(map, self.quotable);
        let input = size.map_or_else(|| "…".into(), |_| Value::Object(map.clone()));
        self.quotable -= size.unwrap_or_default();
        self.within(name, |validator| {
            validator.errors.push(ValidationError::missing(&validator.loc, input));
        });
    }

    fn check_flag(&mut self, value: &mut Value) {
        match parse_flag(value) {
            Some(flag) => *value = flag.into(),
            None if value.is_string() || value.is_number() => {
                let message = "Input should be a valid boolean, unable to interpret input";
                self.error("bool_parsing", message, value);
            }
            None => self.error("bool_type", "Input should be a valid boolean", value),
        }
    }

    fn check_count(&mut self, value: &mut Value) {
        if let Some(count) = parse_count(value) {
            *value = count.into();
            return;
        }
        let (kind, message) = match &*value {
            Value::String(_) => {
                ("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
            }
            Value::Number(number) if number.as_f64().is_some_and(|number| number < 0.0) => {
                ("greater_than_equal", "Input should be greater than or equal to 0")
            }
            Value::Number(_) => {
                ("int_from_float", "Input should be a valid integer, got a number with a fractional part")
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                ("int_type", "Input should be a valid integer")
            }
        };
        self.error(kind, message, value);
    }

    fn check_bytes(&mut self, value: &Value) {
        let Value::String(text) = value else {
            return self.error("bytes_type", "Input should be a valid bytes", value);
        };
        let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
        let body = text.trim_end_matches('=');
        let invalid = body.bytes().position(|byte| !is_symbol(byte));
        let problem = match invalid {
            Some(offset) => format!("Invalid symbol {}, offset {offset}.", body.as_bytes()[offset]),
            None if body.len() % 4 == 1 => "Invalid input length".to_owned(),
            None => return,
        };
        if self.is_full() {
            return;
        }
        let message = format!("Data should be valid base64: {problem}");
        let input = self.quote(value);
        self.errors.push(ValidationError {
            context: Some(json!({"encoding": "base64", "encoding_error": problem})),
            ..ValidationError::new("bytes_invalid_encoding", &self.loc, message, input)
        });
    }
}

/// The approximate size of a value in bytes; `None` above the limit. Visits no more of the value than the limit allows.
fn size_within(value: &Value, limit: usize) -> Option<usize> {
    const SCALAR: usize = 8;
    let size = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR,
        Value::String(text) => SCALAR + text.len(),
        Value::Array(items) => {
            return items
                .iter()
                .try_fold(SCALAR, |sum, item| Some(sum + size_within(item, limit.checked_sub(sum)?)?));
        }
        Value::Object(map) => return members_within(map, limit),
    };
    (size <= limit).then_some(size)
}

/// Like [`size_within`], for the members of an object.
fn members_within(map: &Map<String, Value>, limit: usize) -> Option<usize> {
    map.iter().try_fold(8, |sum, (key, value)| {
        let sum = sum + key.len();
        Some(sum + size_within(value, limit.checked_sub(sum)?)?)
    })
}

/// The values that pydantic accepts as a boolean.
pub(crate) fn parse_flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::String(word) => match word.to_ascii_lowercase().as_str() {
            "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
            "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The values that pydantic accepts as an integer, if it is not negative.
fn parse_count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) if number.is_u64() => number.as_u64(),
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            // The addition turns negative zero into zero.
            format!("{:.0}", number + 0.0).parse().ok()
        }
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(u64::from(*flag)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
