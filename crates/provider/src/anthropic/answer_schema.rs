//! The schema of an answer in the subset of JSON Schema that the API enforces.
//!
//! Every object is closed, and keywords that the API rejects become part of the description. A schema whose meaning the
//! subset cannot express is not enforced.

use crate::tool_schema::describe;
use serde_json::{Map, Value, json};

/// Keywords whose value is passed on as it is.
const SUPPORTED: [&str; 8] = ["type", "title", "description", "enum", "const", "default", "required", "$ref"];

/// The formats of strings that the API knows.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "uuid"];

/// The maximum nesting, which bounds the recursion.
const MAX_DEPTH: usize = 32;

/// The value of `output_config.format`; `None` if the API cannot enforce the schema.
pub(super) fn answer_format(schema: &Value) -> Option<Value> {
    if is_recursive(schema) {
        return None;
    }
    let schema = restrict(schema, 0)?;
    Some(json!({"type": "json_schema", "schema": schema}))
}

fn restrict(schema: &Value, depth: usize) -> Option<Value> {
    let object = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
    // A reference outside of the schema.
    if object.get("$ref").is_some_and(|target| !target.as_str().is_some_and(|path| path.starts_with("#/"))) {
        return None;
    }
    let mut restricted = Map::new();
    let mut notes = Vec::new();
    for (key, value) in object {
        let inner = |value: &Value| restrict(value, depth + 1);
        match key.as_str() {
            "properties" | "$defs" | "definitions" => {
                let members =
                    value.as_object()?.iter().map(|(name, value)| Some((name.clone(), inner(value)?)));
                restricted.insert(key.clone(), Value::Object(members.collect::<Option<_>>()?));
            }
            "items" => drop(restricted.insert(key.clone(), inner(value)?)),
            "anyOf" | "oneOf" => {
                let branches = value.as_array()?.iter().map(inner).collect::<Option<Vec<_>>>()?;
                restricted.insert("anyOf".to_owned(), branches.into());
            }
            "allOf" => {
                let parts = value.as_array()?.iter().map(inner).collect::<Option<Vec<_>>>()?;
                restricted.insert(key.clone(), parts.into());
            }
            "minItems" if matches!(value.as_u64(), Some(0 | 1)) => {
                restricted.insert(key.clone(), value.clone());
            }
            "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                restricted.insert(key.clone(), value.clone());
            }
            "additionalProperties" | "$schema" | "$id" | "$comment" | "examples" => {}
            known if SUPPORTED.contains(&known) => drop(restricted.insert(key.clone(), value.clone())),
            _ => notes.push(format!("{key}: {value}.")),
        }
    }
    close_object(object, &mut restricted)?;
    if object.get("$ref").is_none() {
        describe(&mut restricted, &notes);
    }
    Some(Value::Object(restricted))
}

/// Closes an object. `None` if it is open for properties that the schema does not name.
fn close_object(schema: &Map<String, Value>, restricted: &mut Map<String, Value>) -> Option<()> {
    let has_type = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => false,
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    if !has_type && properties.is_none() {
        return Some(());
    }
    let is_closed = match schema.get("additionalProperties") {
        Some(additional) => additional == false,
        None => properties.is_some_and(|all| !all.is_empty()),
    };
    restricted.insert("additionalProperties".to_owned(), false.into());
    is_closed.then_some(())
}

/// Whether a definition refers to itself, also through others, or a reference has the whole schema as its target.
fn is_recursive(schema: &Value) -> bool {
    let definitions = ["$defs", "definitions"].into_iter().flat_map(|place| {
        let all = schema.get(place).and_then(Value::as_object);
        all.into_iter().flatten().map(move |(name, body)| (format!("#/{place}/{name}"), body))
    });
    let definitions: Vec<(String, Value)> = definitions.map(|(path, body)| (path, body.clone())).collect();
    let text = |body: &Value| body.to_string();
    let refers = |body: &str, path: &str| body.contains(&format!("\"$ref\":\"{path}\""));
    let reaches_itself = |start: usize| {
        let mut seen = vec![false; definitions.len()];
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            let body = text(&definitions[at].1);
            for (other, (path, _)) in definitions.iter().enumerate() {
                if refers(&body, path) && !std::mem::replace(&mut seen[other], true) {
                    open.push(other);
                }
            }
        }
        seen[start]
    };
    refers(&text(schema), "#") || (0..definitions.len()).any(reaches_itself)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn of(schema: &Value) -> String {
        answer_format(schema).map_or_else(|| "not enforced".to_owned(), |format| format["schema"].to_string())
    }

    #[test]
    fn objects_are_closed_and_rejected_keywords_become_descriptions() {
        let schema = json!({"type": "object", "$schema": "x", "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "in years"},
            "mail": {"type": ["string", "null"], "format": "email"},
            "zip": {"type": "string", "format": "zip", "pattern": "^[0-9]+$"},
            "tags": {"type": "array", "minItems": 2, "items": {"oneOf": [{"const": 1}, {"$ref": "#/$defs/P"}]}},
        }, "required": ["age"], "$defs": {"P": {"type": "object", "properties": {"x": {"type": "number"}}}}});
        assert_snapshot!(of(&schema), @r##"{"type":"object","properties":{"age":{"type":"integer","description":"in years minimum: 0."},"mail":{"type":["string","null"],"format":"email"},"zip":{"type":"string","description":"format: \"zip\". pattern: \"^[0-9]+$\"."},"tags":{"type":"array","items":{"anyOf":[{"const":1},{"$ref":"#/$defs/P"}]},"description":"minItems: 2."}},"required":["age"],"$defs":{"P":{"type":"object","properties":{"x":{"type":"number"}},"additionalProperties":false}},"additionalProperties":false}"##);
    }

    #[test]
    fn schema_with_another_meaning_is_not_enforced() {
        let with = |property: Value| json!({"type": "object", "properties": {"a": property}});
        for open in [
            json!(true),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            with(json!({"type": "object", "properties": {"b": {}}, "additionalProperties": true})),
            with(json!({"$ref": "https://schemas.example/a.json"})),
            with(json!({"$ref": "#"})),
            json!({"$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}),
        ] {
            assert_eq!(of(&open), "not enforced", "{open}");
        }
        let deep = (0..40).fold(json!({"type": "string"}), |schema, _| with(schema));
        assert_eq!(of(&deep), "not enforced");
    }
}
