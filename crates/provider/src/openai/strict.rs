//! Schemas that OpenAI enforces word by word. It takes fewer of them so.

use serde_json::{Map, Value};

/// Keywords that every model which enforces schemas knows.
const KNOWN: [&str; 11] = [
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

/// Objects in objects, at most.
const DEEPEST: usize = 5;

/// Names and choices together, at most.
const LONGEST: usize = 15_000;

/// The schema as it can be enforced without a change of meaning: of an object, with all properties required and no
/// others, and with known keywords alone. `None` where it says more, or leaves more open, than that.
pub(crate) fn strict(schema: &Value) -> Option<Value> {
    let enforced = object(schema.as_object()?, 0)?;
    let is_object =
        enforced.get("type").is_some_and(|kind| kind == "object") && !enforced.contains_key("anyOf");
    let enforced = Value::Object(enforced);
    (is_object && enforced.to_string().len() <= LONGEST).then_some(enforced)
}

fn object(schema: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
    if schema.contains_key("$ref") {
        // Nothing may stand beside a reference.
        return (schema.len() == 1).then(|| schema.clone());
    }
    let known = schema.keys().all(|key| KNOWN.contains(&key.as_str()));
    let typed = schema.contains_key("type") || schema.contains_key("anyOf");
    if !known || !typed || depth > DEEPEST {
        return None;
    }
    let mut enforced = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            "properties" | "$defs" => each(value.as_object()?, depth)?,
            "items" => object(value.as_object()?, depth)?.into(),
            "anyOf" => {
                let branches = value.as_array()?.iter();
                branches
                    .map(|branch| object(branch.as_object()?, depth).map(Value::from))
                    .collect::<Option<_>>()?
            }
            _ => value.clone(),
        };
        enforced.insert(key.clone(), value);
    }
    if speaks_of(schema, "array") && !schema.contains_key("items") {
        return None;
    }
    if speaks_of(schema, "object") {
        closed(schema)?;
        enforced.insert("additionalProperties".to_owned(), false.into());
        enforced.entry("properties").or_insert_with(|| Map::new().into());
        enforced.entry("required").or_insert_with(|| Vec::<Value>::new().into());
    }
    Some(enforced)
}

fn each(schemas: &Map<String, Value>, depth: usize) -> Option<Value> {
    let enforced = schemas
        .iter()
        .map(|(name, schema)| Some((name.clone(), Value::Object(object(schema.as_object()?, depth + 1)?))));
    enforced.collect::<Option<Map<_, _>>>().map(Value::from)
}

fn speaks_of(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|named| named == kind),
        Some(named) => named == kind,
        None => false,
    }
}

/// Whether an object has just the properties that it names, all of them. One that names none and closes nothing is open
/// to all.
fn closed(schema: &Map<String, Value>) -> Option<()> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|all| all.iter().any(|other| other == name));
    let all_required = properties.into_iter().flatten().all(|(name, _)| is_required(name));
    let all_named = match schema.get("additionalProperties") {
        Some(more) => more == false,
        None => properties.is_some_and(|all| !all.is_empty()),
    };
    (all_required && all_named).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_that_loses_nothing_by_it_is_enforced() {
        let point =
            json!({"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]});
        let schema = json!({"type": "object", "description": "d", "required": ["at", "all"], "properties": {
            "at": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]},
            "all": {"type": "array", "items": point},
        }, "$defs": {"P": point}});
        let enforced = strict(&schema).unwrap_or_default();
        assert_eq!(enforced["additionalProperties"], false);
        assert_eq!(enforced["$defs"]["P"]["additionalProperties"], false);
        assert_eq!(enforced["properties"]["all"]["items"]["additionalProperties"], false);
        assert_eq!(enforced["properties"]["at"], schema["properties"]["at"]);
        assert!(strict(&json!({"type": "object", "additionalProperties": false})).is_some());
    }

    #[test]
    fn a_schema_that_says_more_or_leaves_more_open_is_not() {
        let with =
            |property: Value| json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
        let open = [
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
        for schema in open {
            assert_eq!(strict(&schema), None, "{schema}");
        }
        let deep = (0..7).fold(json!({"type": "string"}), |schema, _| with(schema));
        assert_eq!(strict(&deep), None);
    }
}
