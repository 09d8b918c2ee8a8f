//! The shape of a value, and the check of a value against it. What passes is also put right as pydantic would: `null` is
//! absence, and a word for yes is `true`.

use super::validation_error::ValidationError;
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(crate) enum Shape {
    Any,
    Text,
    Flag,
    Number,
    Dict,
    /// Bytes, as base64.
    Bytes,
    List(&'static Shape),
    Object(&'static ObjectShape),
}

#[derive(Debug)]
pub(crate) struct ObjectShape {
    /// As the description of the API calls it.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldShape],
    /// Whether a field of another name is wrong.
    pub(crate) closed: bool,
}

/// A field by its camelCase name; its snake_case name is as good.
#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) need: Requirement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    Required,
    /// It has a value of its own if it is left out; `null` is none.
    Defaulted,
    /// `null` is as good as nothing.
    Optional,
}

impl FieldShape {
    pub(crate) const fn required(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, need: Requirement::Required }
    }

    pub(crate) const fn defaulted(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, need: Requirement::Defaulted }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, need: Requirement::Optional }
    }
}

/// Whether a key is a field's name in one of its two spellings.
pub(crate) fn is_named(key: &str, name: &str) -> bool {
    if key == name {
        return true;
    }
    let mut rest = key.bytes();
    let spelled = name.bytes().all(|letter| {
        if letter.is_ascii_uppercase() {
            rest.next() == Some(b'_') && rest.next() == Some(letter.to_ascii_lowercase())
        } else {
            rest.next() == Some(letter)
        }
    });
    spelled && rest.next().is_none()
}

/// The key under which a field was written.
pub(crate) fn key_of(map: &Map<String, Value>, name: &'static str) -> Option<String> {
    if map.contains_key(name) {
        return Some(name.to_owned());
    }
    map.keys().find(|key| is_named(key, name)).cloned()
}

/// One check: where it is, and what it found.
#[derive(Debug)]
pub(crate) struct Validator {
    place: Vec<Value>,
    pub(crate) found: Vec<ValidationError>,
}

impl Validator {
    pub(crate) fn new(place: &str) -> Self {
        Self { place: vec![place.into()], found: Vec::new() }
    }

    pub(crate) fn value(&mut self, value: &mut Value, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Text if value.is_string() => {}
            Shape::Text => self.wrong("string_type", "Input should be a valid string", value),
            Shape::Number if value.is_number() => {}
            Shape::Number => self.wrong("float_type", "Input should be a valid number", value),
            Shape::Dict if value.is_object() => {}
            Shape::Dict => self.wrong("dict_type", "Input should be a valid dictionary", value),
            Shape::Flag => self.flag(value),
            Shape::Bytes => self.bytes(value),
            Shape::List(item) => self.list(value, item),
            Shape::Object(object) => self.object(value, object),
        }
    }

    fn wrong(&mut self, kind: &'static str, message: &str, value: &Value) {
        self.found.push(ValidationError::new(kind, &self.place, message, value.clone()));
    }

    fn within(&mut self, place: impl Into<Value>, check: impl FnOnce(&mut Self)) {
        self.place.push(place.into());
        check(self);
        self.place.pop();
    }

    fn list(&mut self, value: &mut Value, item: &Shape) {
        let Value::Array(items) = value else {
            return self.wrong("list_type", "Input should be a valid list", value);
        };
        for (number, value) in items.iter_mut().enumerate() {
            self.within(number, |check| check.value(value, item));
        }
    }

    fn object(&mut self, value: &mut Value, object: &ObjectShape) {
        let Value::Object(map) = value else {
            let message = "Input should be a valid dictionary or object to extract fields from";
            return self.wrong("model_attributes_type", message, value);
        };
        for field in object.fields {
            self.field(map, field);
        }
        if object.closed {
            let known = |key: &str| object.fields.iter().any(|field| is_named(key, field.name));
            for (key, value) in map.iter().filter(|(key, _)| !known(key)) {
                let (key, value) = (key.clone(), value.clone());
                let message = "Extra inputs are not permitted";
                self.within(key, |check| check.wrong("extra_forbidden", message, &value));
            }
        }
    }

    fn field(&mut self, map: &mut Map<String, Value>, field: &FieldShape) {
        let Some(key) = key_of(map, field.name) else {
            if field.need == Requirement::Required {
                let input = Value::Object(map.clone());
                self.within(field.name, |check| {
                    check.found.push(ValidationError::missing(&check.place, input))
                });
            }
            return;
        };
        if field.need == Requirement::Optional && map[&key].is_null() {
            map.shift_remove(&key);
            return;
        }
        let value = &mut map[&key];
        self.within(key, |check| check.value(value, &field.shape));
    }

    fn flag(&mut self, value: &mut Value) {
        match read_flag(value) {
            Some(flag) => *value = flag.into(),
            None if value.is_string() || value.is_number() => {
                let message = "Input should be a valid boolean, unable to interpret input";
                self.wrong("bool_parsing", message, value);
            }
            None => self.wrong("bool_type", "Input should be a valid boolean", value),
        }
    }

    fn bytes(&mut self, value: &Value) {
        let Value::String(text) = value else {
            return self.wrong("bytes_type", "Input should be a valid bytes", value);
        };
        let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
        let body = text.trim_end_matches('=');
        let odd = body.bytes().position(|byte| !is_symbol(byte));
        let problem = match odd {
            Some(at) => format!("Invalid symbol {}, offset {at}.", body.as_bytes()[at]),
            None if body.len() % 4 == 1 => "Invalid input length".to_owned(),
            None => return,
        };
        let message = format!("Data should be valid base64: {problem}");
        self.found.push(ValidationError {
            context: Some(json!({"encoding": "base64", "encoding_error": problem})),
            ..ValidationError::new("bytes_invalid_encoding", &self.place, message, value.clone())
        });
    }
}

/// The words that pydantic takes for yes and no.
pub(crate) fn read_flag(value: &Value) -> Option<bool> {
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
