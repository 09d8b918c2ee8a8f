//! Tool schemas for Ollama, which knows a few keywords, rejects some of their forms, and drops the rest.

use crate::tool_schema;
use serde_json::{Map, Value, json};

/// Keywords that reach the model.
const KNOWN: [&str; 7] = ["type", "description", "enum", "properties", "required", "items", "anyOf"];

/// Moves everything that Ollama would drop into the descriptions.
pub(super) fn parameters(schema: &Value) -> Value {
    tool_schema::for_gemini(schema).map_or_else(|| json!({"type": "object", "properties": {}}), restrict)
}

fn restrict(schema: Value) -> Value {
    let Value::Object(schema) = schema else { return json!({"type": "string"}) };
    let nullable = schema.get("nullable").is_some_and(|nullable| nullable == true);
    let mut supported = Map::new();
    let mut notes = Vec::new();
    for (key, value) in schema {
        let value = match (key.as_str(), value) {
            ("type", kind) if nullable => json!([kind, "null"]),
            ("items", items) => restrict(items),
            ("anyOf", Value::Array(branches)) => {
                let null = nullable.then(|| json!({"type": "null"}));
                branches.into_iter().map(restrict).chain(null).collect()
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties.into_iter().map(|(name, schema)| (name, restrict(schema)));
                Value::Object(properties.collect())
            }
            (known, value) if KNOWN.contains(&known) => value,
            ("nullable", _) => continue,
            (other, value) => {
                notes.push(format!("{other}: {value}."));
                continue;
            }
        };
        supported.insert(key, value);
    }
    tool_schema::describe(&mut supported, &notes);
    Value::Object(supported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn ollama_schema_moves_dropped_keywords_into_the_description() {
        let schema = json!({"type": "object", "$defs": {"P": {"type": "object", "properties": {"x": {"minimum": 1, "type": "number"}}}}, "properties": {
            "at": {"$ref": "#/$defs/P"},
            "maybe": {"type": ["string", "null"], "pattern": "^a", "description": "a word"},
            "either": {"anyOf": [{"type": "integer", "maximum": 3}, {"type": "null"}]},
            "list": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "email"}},
            "any": true,
        }, "required": ["at"]});
        let cleaned = parameters(&schema);
        let properties = cleaned["properties"].as_object().into_iter().flatten();
        let lines: Vec<String> = properties.map(|(name, schema)| format!("{name}  {schema}")).collect();
        assert_snapshot!(lines.join("\n"), @r#"
        at  {"type":"object","properties":{"x":{"type":"number","description":"minimum: 1."}}}
        maybe  {"type":["string","null"],"description":"a word pattern: \"^a\"."}
        either  {"anyOf":[{"type":"integer","description":"maximum: 3."},{"type":"null"}]}
        list  {"type":"array","items":{"type":"string","description":"format: \"email\"."},"description":"minItems: 1."}
        any  {"type":"string"}
        "#);
        assert_snapshot!(parameters(&Value::Null), @r#"{"type":"object","properties":{}}"#);
    }
}
