//! JSON Schemas of tools as providers take them. What a provider cannot express goes into the description.

use serde_json::{Map, Value, json};

/// The schema of a tool's arguments: always an object, with nothing at the top that OpenAI and Anthropic refuse there.
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
    let said = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let all: Vec<&str> = std::iter::once(said).chain(notes.iter().map(String::as_str)).collect();
    let text = all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    object.insert("description".to_owned(), text.into());
}

/// Gemini's subset of OpenAPI, from JSON Schema. `None` for an object without properties, which it does not take.
pub(crate) fn for_gemini(schema: &Value) -> Option<Value> {
    let cleaner = GeminiSchemaConverter { root: schema };
    let cleaned = cleaner.clean(&parameters(schema), 0);
    let has_properties =
        cleaned.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    has_properties.then_some(cleaned)
}

/// As [`for_gemini`], for the schema of an answer, which need not be an object.
pub(crate) fn answer_for_gemini(schema: &Value) -> Value {
    GeminiSchemaConverter { root: schema }.clean(schema, 0)
}

/// Keywords that Gemini knows and that need no change.
const KEPT: [&str; 14] = [
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

/// Keywords that say nothing to a model.
const SILENT: [&str; 9] = [
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

/// References deeper than this are cut: a recursive schema has no end.
const DEEPEST: usize = 12;

struct GeminiSchemaConverter<'a> {
    root: &'a Value,
}

impl GeminiSchemaConverter<'_> {
    fn clean(&self, schema: &Value, depth: usize) -> Value {
        let Some(object) = schema.as_object().map(|object| self.resolve(object)).filter(|_| depth < DEEPEST)
        else {
            return json!({"type": "string"});
        };
        let mut clean = Map::new();
        let mut notes = Vec::new();
        let kind = self.kind(&object, &mut clean, depth);
        for (key, value) in &object {
            match key.as_str() {
                "type" | "anyOf" | "oneOf" | "required" | "items" => {}
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    let cleaned =
                        properties.map(|(name, value)| (name.clone(), self.clean(value, depth + 1)));
                    clean.insert(key.clone(), Value::Object(cleaned.collect()));
                }
                "enum" | "const" => choices(kind.as_deref(), value, &mut clean, &mut notes),
                "format" if is_known_format(kind.as_deref(), value) => {
                    clean.insert(key.clone(), value.clone());
                }
                known if KEPT.contains(&known) => {
                    clean.insert(key.clone(), value.clone());
                }
                silent if SILENT.contains(&silent) => {}
                _ => notes.push(format!("{key}: {value}.")),
            }
        }
        if kind.as_deref() == Some("array") {
            let items = object
                .get("items")
                .map_or_else(|| json!({"type": "string"}), |items| self.clean(items, depth + 1));
            clean.insert("items".to_owned(), items);
        }
        require(&object, &mut clean);
        describe(&mut clean, &notes);
        Value::Object(clean)
    }

    /// Follows a reference and folds `allOf` into one object.
    fn resolve(&self, object: &Map<String, Value>) -> Map<String, Value> {
        let mut resolved = object.clone();
        for _ in 0..DEEPEST {
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

    /// The one type that Gemini wants; several become `anyOf`, and `null` becomes `nullable`.
    fn kind(
        &self,
        object: &Map<String, Value>,
        clean: &mut Map<String, Value>,
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
            clean.insert("nullable".to_owned(), true.into());
        }
        let mut cleaned: Vec<Value> = branches
            .into_iter()
            .flatten()
            .filter(|branch| !is_null(branch))
            .map(|branch| self.clean(branch, depth + 1))
            .collect();
        let kinds: Vec<&str> = named.into_iter().filter(|kind| *kind != "null").collect();
        if kinds.len() > 1 {
            cleaned.extend(kinds.iter().map(|kind| self.clean(&json!({"type": kind}), depth + 1)));
        }
        if !cleaned.is_empty() && kinds.len() != 1 {
            clean.insert("anyOf".to_owned(), Value::Array(cleaned));
            return None;
        }
        let kind = kinds.first().copied().unwrap_or_else(|| implied(object));
        clean.insert("type".to_owned(), kind.into());
        Some(kind.to_owned())
    }
}

fn implied(object: &Map<String, Value>) -> &'static str {
    if object.contains_key("properties") {
        "object"
    } else if object.contains_key("items") {
        "array"
    } else {
        "string"
    }
}

/// Properties and demands of both; for the rest the first speaks.
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

/// Choices are an `enum` for strings only; others are told in words.
fn choices(kind: Option<&str>, value: &Value, clean: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    let spoken = values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    if kind == Some("string") && spoken && !values.is_empty() {
        clean.insert("enum".to_owned(), Value::Array(values));
    } else {
        let said: Vec<String> = values.iter().map(Value::to_string).collect();
        notes.push(format!("One of: {}.", said.join(", ")));
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

/// Only what is described can be required.
fn require(object: &Map<String, Value>, clean: &mut Map<String, Value>) {
    let properties = clean.get("properties").and_then(Value::as_object);
    let names = object.get("required").and_then(Value::as_array).into_iter().flatten();
    let known = |name: &&Value| {
        name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
    };
    let required: Vec<Value> = names.filter(known).cloned().collect();
    if !required.is_empty() {
        clean.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn what_gemini_cannot_express_is_told_in_the_description() {
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
        let cleaned = for_gemini(&schema).expect("it has properties");
        let properties = cleaned["properties"].as_object().into_iter().flatten();
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
        assert_snapshot!(cleaned["required"], @r#"["at"]"#);
        assert!(for_gemini(&json!({"type": "object", "properties": {}})).is_none());
    }

    #[test]
    fn a_recursive_schema_ends() {
        let schema = json!({"$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}}, "properties": {"t": {"$ref": "#/$defs/T"}}});
        assert!(for_gemini(&schema).is_some());
    }

    #[test]
    fn arguments_are_an_object_with_nothing_refused_at_its_top() {
        assert_snapshot!(parameters(&json!({"anyOf": [{"required": ["a"]}], "description": "d"})), @r#"{"description":"d anyOf: [{\"required\":[\"a\"]}]","type":"object","properties":{}}"#);
        assert_snapshot!(parameters(&Value::Null), @r#"{"type":"object","properties":{}}"#);
    }
}
