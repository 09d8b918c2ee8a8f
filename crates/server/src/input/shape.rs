//! The vocabulary of the validation tables: types, objects and fields. OpenAPI schemas are generated from the same tables.

use serde_json::{Map, Value};

/// The type of a JSON value.
#[derive(Debug)]
pub(crate) enum Shape {
    Any,
    Text,
    Flag,
    Number,
    /// A whole number that is not negative.
    Count,
    Dict,
    /// Bytes, as base64.
    Bytes,
    List(&'static Shape),
    Object(&'static ObjectShape),
}

#[derive(Debug)]
pub(crate) struct ObjectShape {
    /// The name of its OpenAPI schema.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldShape],
    /// Whether unknown fields are errors.
    pub(crate) closed: bool,
}

/// A field, named in camelCase. Clients may also send its snake_case name.
#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) requirement: Requirement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    Required,
    /// The field may be absent, and then has a default. `null` is an error.
    Defaulted,
    /// The field may be absent or `null`.
    Optional,
}

impl FieldShape {
    pub(crate) const fn required(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, requirement: Requirement::Required }
    }

    pub(crate) const fn defaulted(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, requirement: Requirement::Defaulted }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, requirement: Requirement::Optional }
    }
}

/// Whether a key is the camelCase name of a field or its snake_case form.
pub(crate) fn is_spelling_of(key: &str, name: &str) -> bool {
    if key == name {
        return true;
    }
    let mut rest = key.bytes();
    let is_snake_case = name.bytes().all(|letter| {
        if letter.is_ascii_uppercase() {
            rest.next() == Some(b'_') && rest.next() == Some(letter.to_ascii_lowercase())
        } else {
            rest.next() == Some(letter)
        }
    });
    is_snake_case && rest.next().is_none()
}

/// The key under which an object holds a field. If both spellings are present, camelCase wins.
pub(crate) fn find_key(map: &Map<String, Value>, name: &'static str) -> Option<String> {
    let spellings = || map.iter().filter(|(key, _)| is_spelling_of(key, name));
    // `null` in one spelling does not hide a value in the other. Otherwise camelCase wins.
    let with_value = || spellings().filter(|(_, value)| !value.is_null());
    let found = with_value().find(|(key, _)| *key == name).or_else(|| with_value().next());
    found.or_else(|| spellings().next()).map(|(key, _)| key.clone())
}
