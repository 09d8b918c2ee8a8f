//! Conversion of JSON Schemas to the subset that each provider accepts. Keywords that a provider cannot express go into
//! the description.

use serde_json::{Map, Value, json};

/// The schema of a tool's arguments: always an object, without the top-level keywords that OpenAI and Anthropic reject.
pub(crate) fn parameters(schema: &Value) -> Value {
    let mut object = schema.as_object().cloned().unwrap_or_default();
    let mut notes = Vec::new();
    for key in ["anyOf", "oneOf", "allOf", "not", "enum"] {
        notes.extend(object.shift_remove(key).map(|value| format!("{key}: {value}")));
    }
    object.insert("type".to_owned(), "object".into());
    if !object.get("properties").is_some_and(Value::is_object) {
        object.insert("properties".to_owned(), json!({}));
    }
    describe(&mut object, &notes);
    Value::Object(object)
}

pub(crate) fn describe(object: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let existing = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let all: Vec<&str> = std::iter::once(existing).chain(notes.iter().map(String::as_str)).collect();
    let text = all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    object.insert("description".to_owned(), text.into());
}

/// Converts a JSON Schema to Gemini's OpenAPI subset. Returns `None` for an object without properties, which Gemini
/// rejects.
pub(crate) fn for_gemini(schema: &Value) -> Option<Value> {
    let converter = GeminiSchemaConverter { root: schema };
    let gemini = converter.convert(&parameters(schema), 0);
    let has_properties =
        gemini.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    has_properties.then_some(gemini)
}

/// Like [`for_gemini`], for the schema of an answer, which need not be an object.
pub(crate) fn answer_for_gemini(schema: &Value) -> Value {
    GeminiSchemaConverter { root: schema }.convert(schema, 0)
}

/// Keywords that Gemini supports unchanged.
const SUPPORTED: [&str; 14] = [
    "title",
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "default",
    "propertyOrdering",
];

/// Keywords that carry no information for a model.
const OMITTED: [&str; 9] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "$ref",
    "$anchor",
    "examples",
    "additionalProperties",
];

/// The maximum depth of references; a recursive schema would never end.
const MAX_DEPTH: usize = 12;

struct GeminiSchemaConverter<'a> {
    root: &'a Value,
}

impl GeminiSchemaConverter<'_> {
    fn convert(&self, schema: &Value, depth: usize) -> Value {
        let Some(object) =
            schema.as_object().map(|object| self.resolve(object)).filter(|_| depth < MAX_DEPTH)
        else {
            return json!({"type": "string"});
        };
        let mut converted = Map::new();
        let mut notes = Vec::new();
        let kind = self.resolve_type(&object, &mut converted, depth);
        for (key, value) in &object {
            match key.as_str() {
                "type" | "anyOf" | "oneOf" | "required" | "items" => {}
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    let members =
                        properties.map(|(name, value)| (name.clone(), self.convert(value, depth + 1)));
                    converted.insert(key.clone(), Value::Object(members.collect()));
                }
                "enum" | "const" => convert_choices(kind.as_deref(), value, &mut converted, &mut notes),
                "format" if is_known_format(kind.as_deref(), value) => {
                    converted.insert(key.clone(), value.clone());
                }
                known if SUPPORTED.contains(&known) => {
                    converted.insert(key.clone(), value.clone());
                }
                omitted if OMITTED.contains(&omitted) => {}
                _ => notes.push(format!("{key}: {value}.")),
            }
        }
        if kind.as_deref() == Some("array") {
            let items = object
                .get("items")
                .map_or_else(|| json!({"type": "string"}), |items| self.convert(items, depth + 1));
            converted.insert("items".to_owned(), items);
        }
        copy_required(&object, &mut converted);
        describe(&mut converted, &notes);
        Value::Object(converted)
    }

    /// Resolves `$ref` and merges `allOf` into one object.
    fn resolve(&self, object: &Map<String, Value>) -> Map<String, Value> {
        let mut resolved = object.clone();
        for _ in 0..MAX_DEPTH {
            let target = resolved.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
            let Some(target) = target.and_then(|path| self.root.pointer(path)).and_then(Value::as_object)
            else {
                break;
            };
            let own = std::mem::replace(&mut resolved, target.clone());
            resolved.extend(own.into_iter().filter(|(key, _)| key != "$ref"));
        }
        for part in resolved.shift_remove("allOf").as_ref().and_then(Value::as_array).into_iter().flatten() {
            let part = part.as_object().map(|part| self.resolve(part)).unwrap_or_default();
            merge(&mut resolved, part);
        }
        resolved
    }

    /// Determines the single type that Gemini requires. Several types become `anyOf`, and `null` becomes `nullable`.
    fn resolve_type(
        &self,
        object: &Map<String, Value>,
        converted: &mut Map<String, Value>,
        depth: usize,
    ) -> Option<String> {
        let named: Vec<&str> = match object.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        };
        let branches = object.get("anyOf").or_else(|| object.get("oneOf")).and_then(Value::as_array);
        let is_null = |value: &&Value| value.get("type").and_then(Value::as_str) == Some("null");
        let null_branch = branches.is_some_and(|branches| branches.iter().any(|branch| is_null(&branch)));
        if named.contains(&"null") || null_branch {
            converted.insert("nullable".to_owned(), true.into());
        }
        let mut alternatives: Vec<Value> = branches
            .into_iter()
            .flatten()
            .filter(|branch| !is_null(branch))
            .map(|branch| self.convert(branch, depth + 1))
            .collect();
        let kinds: Vec<&str> = named.into_iter().filter(|kind| *kind != "null").collect();
        if kinds.len() > 1 {
            alternatives.extend(kinds.iter().map(|kind| self.convert(&json!({"type": kind}), depth + 1)));
        }
        if !alternatives.is_empty() && kinds.len() != 1 {
            converted.insert("anyOf".to_owned(), Value::Array(alternatives));
            return None;
        }
        let kind = kinds.first().copied().unwrap_or_else(|| implied_type(object));
        converted.insert("type".to_owned(), kind.into());
        Some(kind.to_owned())
    }
}

fn implied_type(object: &Map<String, Value>) -> &'static str {
    if object.contains_key("properties") {
        "object"
    } else if object.contains_key("items") {
        "array"
    } else {
        "string"
    }
}

/// Merges `part` into `into`: unions of objects and of `required`; otherwise the existing value wins.
fn merge(into: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (Some(Value::Array(old)), Value::Array(new)) if key == "required" => old.extend(new),
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Writes choices as `enum` if all of them are strings, and into the description otherwise.
fn convert_choices(
    kind: Option<&str>,
    value: &Value,
    converted: &mut Map<String, Value>,
    notes: &mut Vec<String>,
) {
    let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    let all_strings = values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    if kind == Some("string") && all_strings && !values.is_empty() {
        converted.insert("enum".to_owned(), Value::Array(values));
    } else {
        let choices: Vec<String> = values.iter().map(Value::to_string).collect();
        notes.push(format!("One of: {}.", choices.join(", ")));
    }
}

fn is_known_format(kind: Option<&str>, format: &Value) -> bool {
    let known: &[&str] = match kind {
        Some("string") => &["enum", "date-time"],
        Some("number") => &["float", "double"],
        Some("integer") => &["int32", "int64"],
        Some(_) | None => &[],
    };
    format.as_str().is_some_and(|format| known.contains(&format))
}

/// Copies `required`, restricted to properties that exist.
fn copy_required(object: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let properties = converted.get("properties").and_then(Value::as_object);
    let names = object.get("required").and_then(Value::as_array).into_iter().flatten();
    let known = |name: &&Value| {
        name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
    };
    let required: Vec<Value> = names.filter(known).cloned().collect();
    if !required.is_empty() {
        converted.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn gemini_schema_moves_unsupported_keywords_into_the_description() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false,
            "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number", "exclusiveMinimum": 0}}, "required": ["x", "y"]}},
            "properties": {
                "at": {"$ref": "#/$defs/Point", "description": "where"},
                "mail": {"type": "string", "format": "email", "description": "to whom"},
                "level": {"type": "integer", "enum": [1, 2]},
                "mode": {"const": "fast"},
                "maybe": {"type": ["string", "null"]},
                "any": {"oneOf": [{"type": "string"}, {"type": "array"}, {"type": "null"}]},
                "both": {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}}]},
            },
            "required": ["at", "nothing"],
        });
        let gemini = for_gemini(&schema).expect("it has properties");
        let properties = gemini["properties"].as_object().into_iter().flatten();
        let lines: Vec<String> = properties.map(|(name, schema)| format!("{name}  {schema}")).collect();
        assert_snapshot!(lines.join("\n"), @r#"
        at  {"type":"object","properties":{"x":{"type":"number","description":"exclusiveMinimum: 0."}},"description":"where","required":["x"]}
        mail  {"type":"string","description":"to whom format: \"email\"."}
        level  {"type":"integer","description":"One of: 1, 2."}
        mode  {"type":"string","enum":["fast"]}
        maybe  {"nullable":true,"type":"string"}
        any  {"nullable":true,"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}
        both  {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}
        "#);
        assert_snapshot!(gemini["required"], @r#"["at"]"#);
        assert!(for_gemini(&json!({"type": "object", "properties": {}})).is_none());
    }

    #[test]
    fn recursive_schema_is_cut_at_the_maximum_depth() {
        let schema = json!({"$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}}, "properties": {"t": {"$ref": "#/$defs/T"}}});
        assert!(for_gemini(&schema).is_some());
    }

    #[test]
    fn tool_parameters_are_an_object_without_top_level_combinators() {
        assert_snapshot!(parameters(&json!({"anyOf": [{"required": ["a"]}], "description": "d"})), @r#"{"description":"d anyOf: [{\"required\":[\"a\"]}]","type":"object","properties":{}}"#);
        assert_snapshot!(parameters(&Value::Null), @r#"{"type":"object","properties":{}}"#);
    }
}
