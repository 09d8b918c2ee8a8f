//! Checks a JSON value against a table and collects every error. Valid values are normalised as pydantic does: optional
//! fields that are `null` are removed, and the words for true and false become booleans.

use super::{
    shape::{FieldShape, ObjectShape, Requirement, Shape, find_key, is_spelling_of},
    validation_error::ValidationError,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(crate) struct Validator {
    /// The path to the value that is being checked.
    loc: Vec<Value>,
    pub(crate) errors: Vec<ValidationError>,
}

impl Validator {
    pub(crate) fn new(root: &str) -> Self {
        Self { loc: vec![root.into()], errors: Vec::new() }
    }

    pub(crate) fn check(&mut self, value: &mut Value, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Text if value.is_string() => {}
            Shape::Text => self.error("string_type", "Input should be a valid string", value),
            Shape::Number if value.is_number() => {}
            Shape::Number => self.error("float_type", "Input should be a valid number", value),
            Shape::Dict if value.is_object() => {}
            Shape::Dict => self.error("dict_type", "Input should be a valid dictionary", value),
            Shape::Flag => self.check_flag(value),
            Shape::Bytes => self.check_bytes(value),
            Shape::List(item) => self.check_list(value, item),
            Shape::Object(object) => self.check_object(value, object),
        }
    }

    fn error(&mut self, kind: &'static str, message: &str, value: &Value) {
        self.errors.push(ValidationError::new(kind, &self.loc, message, value.clone()));
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
            for (key, value) in map.iter().filter(|(key, _)| !is_known(key)) {
                let (key, value) = (key.clone(), value.clone());
                let message = "Extra inputs are not permitted";
                self.within(key, |validator| validator.error("extra_forbidden", message, &value));
            }
        }
    }

    fn check_field(&mut self, map: &mut Map<String, Value>, field: &FieldShape) {
        let Some(key) = find_key(map, field.name) else {
            if field.requirement == Requirement::Required {
                let input = Value::Object(map.clone());
                self.within(field.name, |validator| {
                    validator.errors.push(ValidationError::missing(&validator.loc, input));
                });
            }
            return;
        };
        if field.requirement == Requirement::Optional && map[&key].is_null() {
            map.shift_remove(&key);
            return;
        }
        let value = &mut map[&key];
        self.within(key, |validator| validator.check(value, &field.shape));
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
        let message = format!("Data should be valid base64: {problem}");
        self.errors.push(ValidationError {
            context: Some(json!({"encoding": "base64", "encoding_error": problem})),
            ..ValidationError::new("bytes_invalid_encoding", &self.loc, message, value.clone())
        });
    }
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
