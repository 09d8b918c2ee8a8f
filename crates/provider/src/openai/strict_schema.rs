//! Schemas for OpenAI's `strict` mode, which enforces a schema exactly and supports only a subset of JSON Schema.

use serde_json::{Map, Value};

/// Keywords that all models with `strict` support.
const SUPPORTED: [&str; 11] = [
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$defs",
];

/// The maximum nesting of objects.
const MAX_DEPTH: usize = 5;

/// The maximum length of the schema, which bounds names and enum values.
const MAX_SCHEMA_LEN: usize = 15_000;

/// Returns the schema for `strict` mode if that does not change its meaning: an object whose properties are all
/// required, without further properties, and with supported keywords only. `None` otherwise.
pub(crate) fn strict_schema(schema: &Value) -> Option<Value> {
    let enforced = strict_object(schema.as_object()?, 0)?;
    let is_object =
        enforced.get("type").is_some_and(|kind| kind == "object") && !enforced.contains_key("anyOf");
    let enforced = Value::Object(enforced);
    (is_object && enforced.to_string().len() <= MAX_SCHEMA_LEN).then_some(enforced)
}

fn strict_object(schema: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
    if schema.contains_key("$ref") {
        // A `$ref` must have no sibling keywords.
        return (schema.len() == 1).then(|| schema.clone());
    }
    let known = schema.keys().all(|key| SUPPORTED.contains(&key.as_str()));
    let typed = schema.contains_key("type") || schema.contains_key("anyOf");
    if !known || !typed || depth > MAX_DEPTH {
        return None;
    }
    let mut enforced = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            "properties" | "$defs" => strict_members(value.as_object()?, depth)?,
            "items" => strict_object(value.as_object()?, depth)?.into(),
            "anyOf" => {
                let branches = value.as_array()?.iter();
                branches
                    .map(|branch| strict_object(branch.as_object()?, depth).map(Value::from))
                    .collect::<Option<_>>()?
            }
            _ => value.clone(),
        };
        enforced.insert(key.clone(), value);
    }
    if has_type(schema, "array") && !schema.contains_key("items") {
        return None;
    }
    if has_type(schema, "object") {
        require_closed(schema)?;
        enforced.insert("additionalProperties".to_owned(), false.into());
        enforced.entry("properties").or_insert_with(|| Map::new().into());
        enforced.entry("required").or_insert_with(|| Vec::<Value>::new().into());
    }
    Some(enforced)
}

fn strict_members(schemas: &Map<String, Value>, depth: usize) -> Option<Value> {
    let enforced = schemas.iter().map(|(name, schema)| {
        Some((name.clone(), Value::Object(strict_object(schema.as_object()?, depth + 1)?)))
    });
    enforced.collect::<Option<Map<_, _>>>().map(Value::from)
}

fn has_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|named| named == kind),
        Some(named) => named == kind,
        None => false,
    }
}

/// Whether an object allows exactly its declared properties, all of them required. An object that declares none and
/// closes nothing allows any.
fn require_closed(schema: &Map<String, Value>) -> Option<()> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|all| all.iter().any(|other| other == name));
    let all_required = properties.into_iter().flatten().all(|(name, _)| is_required(name));
    let all_named = match schema.get("additionalProperties") {
        Some(additional) => additional == false,
        None => properties.is_some_and(|all| !all.is_empty()),
    };
    (all_required && all_named).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn closed_schema_is_made_strict() {
        let point =
            json!({"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]});
        let schema = json!({"type": "object", "description": "d", "required": ["at", "all"], "properties": {
            "at": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]},
            "all": {"type": "array", "items": point},
        }, "$defs": {"P": point}});
        let enforced = strict_schema(&schema).unwrap_or_default();
        assert_eq!(enforced["additionalProperties"], false);
        assert_eq!(enforced["$defs"]["P"]["additionalProperties"], false);
        assert_eq!(enforced["properties"]["all"]["items"]["additionalProperties"], false);
        assert_eq!(enforced["properties"]["at"], schema["properties"]["at"]);
        assert!(strict_schema(&json!({"type": "object", "additionalProperties": false})).is_some());
    }

    #[test]
    fn open_or_unsupported_schema_is_not_made_strict() {
        let with =
            |property: Value| json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
        let unsupported = [
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"anyOf": [with(json!({"type": "string"}))]}),
            json!(true),
            with(json!({"type": "string", "format": "email"})),
            with(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            with(json!({"type": "array"})),
            with(json!({"description": "anything"})),
            with(json!({"$ref": "#/$defs/a", "description": "more"})),
            with(json!(true)),
        ];
        for schema in unsupported {
            assert_eq!(strict_schema(&schema), None, "{schema}");
        }
        let deep = (0..7).fold(json!({"type": "string"}), |schema, _| with(schema));
        assert_eq!(strict_schema(&deep), None);
    }
}
