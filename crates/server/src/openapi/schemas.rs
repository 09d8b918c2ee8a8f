//! The schemas of bodies and responses. Those of bodies are generated from the tables that validate them, so that they cannot
//! differ.

use super::operation::{list_of, schema_ref};
use crate::input::{
    bodies,
    shape::{FieldShape, ObjectShape, Requirement, Shape},
};
use serde_json::{Map, Value, json};

/// Whether a schema describes input, with both spellings of a field and `null` for absence, or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaDirection {
    Request,
    Response,
}

pub(super) fn all() -> Map<String, Value> {
    let mut all = Map::new();
    let bodies = [
        &bodies::RUN,
        &bodies::SESSION_RUN,
        &bodies::CREATE_SESSION,
        &bodies::PATCH_SESSION,
        &bodies::PATCH_MEMORY,
        &bodies::SAVE_ARTIFACT,
    ];
    for object in bodies {
        add_object(&mut all, object, SchemaDirection::Request);
    }
    add_object(&mut all, &bodies::EVENT, SchemaDirection::Response);
    all["Event"]["properties"]["actions"] = schema_ref("EventActions");
    all.extend(responses().map(|(name, schema)| (name.to_owned(), schema)));
    all.sort_keys();
    all
}

/// The name of an object's schema. An object that is both input and output has two schemas.
fn schema_name(object: &ObjectShape, direction: SchemaDirection) -> String {
    let is_input_part = direction == SchemaDirection::Request && !object.name.ends_with("Request");
    if is_input_part { format!("{}Input", object.name) } else { object.name.to_owned() }
}

/// Adds the schema of an object and of the objects within it.
fn add_object(all: &mut Map<String, Value>, object: &'static ObjectShape, direction: SchemaDirection) {
    let name = schema_name(object, direction);
    if all.contains_key(&name) {
        return;
    }
    let mut schema = json!({"type": "object", "properties": {}});
    all.insert(name.clone(), schema.clone());
    for field in object.fields {
        let value = field_schema(all, field, direction);
        schema["properties"][field.name] = value.clone();
        let other = snake_case(field.name);
        if direction == SchemaDirection::Request && other != field.name {
            schema["properties"][other] = value;
        }
    }
    let required: Vec<&FieldShape> =
        object.fields.iter().filter(|field| is_required(field, direction)).collect();
    if !required.is_empty() {
        match direction {
            SchemaDirection::Request => {
                schema["allOf"] = required.iter().map(|field| require_either_spelling(field)).collect();
            }
            SchemaDirection::Response => {
                schema["required"] = required.iter().map(|field| field.name).collect();
            }
        }
    }
    if direction == SchemaDirection::Request && object.closed {
        schema["additionalProperties"] = false.into();
    }
    all.insert(name, schema);
}

/// A field with a default is always in a response, and optional in a request.
fn is_required(field: &FieldShape, direction: SchemaDirection) -> bool {
    match field.requirement {
        Requirement::Required => true,
        Requirement::Defaulted => direction == SchemaDirection::Response,
        Requirement::Optional => false,
    }
}

fn require_either_spelling(field: &FieldShape) -> Value {
    let other = snake_case(field.name);
    if other == field.name {
        return json!({"required": [field.name]});
    }
    json!({"anyOf": [{"required": [field.name]}, {"required": [other]}]})
}

fn field_schema(
    all: &mut Map<String, Value>,
    field: &'static FieldShape,
    direction: SchemaDirection,
) -> Value {
    let schema = shape_schema(all, &field.shape, direction);
    if direction == SchemaDirection::Request
        && field.requirement == Requirement::Optional
        && schema != json!({})
    {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    schema
}

fn shape_schema(all: &mut Map<String, Value>, shape: &'static Shape, direction: SchemaDirection) -> Value {
    match shape {
        Shape::Any => json!({}),
        Shape::Text => json!({"type": "string"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Number => json!({"type": "number"}),
        Shape::Count => json!({"type": "integer", "minimum": 0}),
        Shape::Dict => json!({"type": "object"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64", "pattern": BASE64}),
        Shape::List(item) => list_of(&shape_schema(all, item, direction)),
        Shape::Object(object) => {
            add_object(all, object, direction);
            schema_ref(&schema_name(object, direction))
        }
    }
}

/// Base64 in the standard or the URL-safe alphabet.
const BASE64: &str = "^([A-Za-z0-9+/_-]{4})*([A-Za-z0-9+/_-]{2,3})?=*$";

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// An object whose properties are all required.
fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().map(|all| all.keys().collect()).unwrap_or_default();
    json!({"type": "object", "properties": properties, "required": required})
}

fn with_optional(mut schema: Value, optional: Value) -> Value {
    if let (Some(properties), Value::Object(optional)) = (schema["properties"].as_object_mut(), optional) {
        properties.extend(optional);
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

fn number() -> Value {
    json!({"type": "number"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn dict() -> Value {
    json!({"type": "object"})
}

fn responses() -> impl Iterator<Item = (&'static str, Value)> {
    server_schemas().into_iter().chain(session_schemas()).chain(run_schemas()).chain(page_schemas())
}

fn server_schemas() -> [(&'static str, Value); 9] {
    let loc_segment = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let validation_error = json!({"type": text(), "loc": list_of(&loc_segment), "msg": text(), "input": {}});
    let validation_error = with_optional(object(&validation_error), json!({"ctx": dict()}));
    let app = json!({
        "name": text(),
        "rootAgentName": text(),
        "description": text(),
        "language": text(),
        "isComputerUse": {"type": "boolean"},
        "agents": {"type": ["object", "null"], "additionalProperties": schema_ref("AgentInfo")},
    });
    let agent = json!({
        "name": text(),
        "description": text(),
        "instruction": text(),
        "tools": list_of(&dict()),
        "sub_agents": list_of(&text()),
    });
    [
        ("Status", object(&json!({"status": text()}))),
        ("Readiness", readiness_schema()),
        ("Version", object(&json!({"version": text(), "language": text(), "language_version": text()}))),
        ("Whoami", object(&json!({"user": {"type": ["string", "null"]}, "admin": {"type": "boolean"}}))),
        ("Link", object(&json!({"path": text()}))),
        ("Error", error_schema()),
        ("ValidationError", object(&json!({"detail": list_of(&validation_error)}))),
        ("AppInfo", object(&app)),
        ("AgentInfo", object(&agent)),
    ]
}

/// `reason` is for administrators only.
fn readiness_schema() -> Value {
    let broken = object(&json!({"name": text(), "kind": text(), "servesPrevious": {"type": "boolean"}}));
    let broken = with_optional(broken, json!({"reason": text()}));
    let stalled = object(&json!({"app": text(), "runs": count()}));
    object(&json!({
        "status": text(),
        "apps": object(&json!({"broken": list_of(&broken)})),
        "recovery": object(&json!({"stalled": list_of(&stalled)})),
    }))
}

/// An error with a message. `kind` identifies failures of the store.
fn error_schema() -> Value {
    let mut error = object(&json!({"detail": text()}));
    error["properties"]["kind"] = text();
    error
}

fn session_schemas() -> [(&'static str, Value); 4] {
    let session = json!({
        "id": text(),
        "appName": text(),
        "userId": text(),
        "state": dict(),
        "events": list_of(&schema_ref("Event")),
        "lastUpdateTime": number(),
    });
    let actions = json!({
        "stateDelta": dict(),
        "artifactDelta": dict(),
        "requestedAuthConfigs": dict(),
        "requestedToolConfirmations": dict(),
    });
    let flag = || json!({"type": "boolean"});
    let optional_actions =
        json!({"skipSummarization": flag(), "transferToAgent": text(), "escalate": flag()});
    let version = json!({
        "version": count(),
        "canonicalUri": text(),
        "customMetadata": dict(),
        "createTime": number(),
    });
    let hit = json!({
        "sessionId": text(),
        "position": count(),
        "timestamp": number(),
        "author": text(),
        "snippet": text(),
    });
    let results = json!({"hits": list_of(&object(&hit)), "isComplete": flag()});
    [
        ("SearchResults", object(&results)),
        ("Session", object(&session)),
        ("EventActions", with_optional(object(&actions), optional_actions)),
        ("ArtifactVersion", with_optional(object(&version), json!({"mimeType": text()}))),
    ]
}

fn run_schemas() -> [(&'static str, Value); 4] {
    let run = json!({"id": text(), "status": schema_ref("RunStatus"), "createdAt": number(), "updatedAt": number()});
    let statuses = ["queued", "running", "waiting", "done", "failed", "cancelled", "interrupted"];
    let data = json!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": [schema_ref("Event"), schema_ref("StreamFailure")]},
    });
    let id = json!({"type": "string", "description": "For `Last-Event-ID`. A failure and the events of `/run_sse` have none."});
    [
        ("RunStatus", json!({"enum": statuses})),
        (
            "Run",
            with_optional(object(&run), json!({"position": count(), "error": text(), "lastEventId": text()})),
        ),
        ("StreamedEvent", with_optional(object(&json!({"data": data})), json!({"id": id}))),
        ("StreamFailure", object(&json!({"error": text(), "error_details": dict()}))),
    ]
}

fn page_schemas() -> [(&'static str, Value); 2] {
    let span = json!({
        "name": text(),
        "start_time": count(),
        "end_time": count(),
        "trace_id": count(),
        "span_id": count(),
        "parent_span_id": {"type": ["integer", "null"]},
        "attributes": dict(),
        "logs": list_of(&dict()),
    });
    [("Span", object(&span)), ("BuildGraph", object(&json!({"name": text(), "root_agent": dict()})))]
}
