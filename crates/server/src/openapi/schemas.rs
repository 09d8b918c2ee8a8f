//! What is sent and what is answered. Bodies are described from the tables that check them, so that the two cannot differ.

use super::operation::{list_of, named};
use crate::input::{
    bodies,
    shape::{FieldShape, ObjectShape, Requirement, Shape},
};
use serde_json::{Map, Value, json};

/// Which way something goes: in, with both spellings and `null` for nothing, or out, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaDirection {
    Request,
    Response,
}

pub(super) fn all() -> Map<String, Value> {
    let mut all = Map::new();
    let sent = [
        &bodies::RUN,
        &bodies::SESSION_RUN,
        &bodies::CREATE_SESSION,
        &bodies::PATCH_SESSION,
        &bodies::PATCH_MEMORY,
        &bodies::SAVE_ARTIFACT,
    ];
    for object in sent {
        add(&mut all, object, SchemaDirection::Request);
    }
    add(&mut all, &bodies::EVENT, SchemaDirection::Response);
    all["Event"]["properties"]["actions"] = named("EventActions");
    all.extend(answers().map(|(name, schema)| (name.to_owned(), schema)));
    all.sort_keys();
    all
}

/// Requests have names of their own; what goes both ways is named for its way.
fn name(object: &ObjectShape, way: SchemaDirection) -> String {
    let is_content = way == SchemaDirection::Request && !object.name.ends_with("Request");
    if is_content { format!("{}Input", object.name) } else { object.name.to_owned() }
}

/// An object and all that it may hold.
fn add(all: &mut Map<String, Value>, object: &'static ObjectShape, way: SchemaDirection) {
    let name = name(object, way);
    if all.contains_key(&name) {
        return;
    }
    let mut schema = json!({"type": "object", "properties": {}});
    all.insert(name.clone(), schema.clone());
    for field in object.fields {
        let value = described(all, field, way);
        schema["properties"][field.name] = value.clone();
        let other = snake_case(field.name);
        if way == SchemaDirection::Request && other != field.name {
            schema["properties"][other] = value;
        }
    }
    let needed: Vec<&FieldShape> = object.fields.iter().filter(|field| is_needed(field, way)).collect();
    if !needed.is_empty() {
        match way {
            SchemaDirection::Request => {
                schema["allOf"] = needed.iter().map(|field| in_one_spelling(field)).collect()
            }
            SchemaDirection::Response => schema["required"] = needed.iter().map(|field| field.name).collect(),
        }
    }
    if way == SchemaDirection::Request && object.closed {
        schema["additionalProperties"] = false.into();
    }
    all.insert(name, schema);
}

/// What has a value of its own is always printed, and need not be sent.
fn is_needed(field: &FieldShape, way: SchemaDirection) -> bool {
    match field.requirement {
        Requirement::Required => true,
        Requirement::Defaulted => way == SchemaDirection::Response,
        Requirement::Optional => false,
    }
}

fn in_one_spelling(field: &FieldShape) -> Value {
    let other = snake_case(field.name);
    if other == field.name {
        return json!({"required": [field.name]});
    }
    json!({"anyOf": [{"required": [field.name]}, {"required": [other]}]})
}

fn described(all: &mut Map<String, Value>, field: &'static FieldShape, way: SchemaDirection) -> Value {
    let schema = schema_of(all, &field.shape, way);
    if way == SchemaDirection::Request && field.requirement == Requirement::Optional && schema != json!({}) {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    schema
}

fn schema_of(all: &mut Map<String, Value>, shape: &'static Shape, way: SchemaDirection) -> Value {
    match shape {
        Shape::Any => json!({}),
        Shape::Text => json!({"type": "string"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Number => json!({"type": "number"}),
        Shape::Dict => json!({"type": "object"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64", "pattern": BASE64}),
        Shape::List(item) => list_of(&schema_of(all, item, way)),
        Shape::Object(object) => {
            add(all, object, way);
            named(&name(object, way))
        }
    }
}

/// In either of its alphabets.
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

/// An object of which all named fields are always there.
fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().map(|all| all.keys().collect()).unwrap_or_default();
    json!({"type": "object", "properties": properties, "required": required})
}

fn with(mut schema: Value, optional: Value) -> Value {
    if let (Some(all), Value::Object(more)) = (schema["properties"].as_object_mut(), optional) {
        all.extend(more);
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

fn answers() -> impl Iterator<Item = (&'static str, Value)> {
    of_the_server().into_iter().chain(of_sessions()).chain(of_runs()).chain(of_the_page())
}

fn of_the_server() -> [(&'static str, Value); 8] {
    let place = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let wrong = json!({"type": text(), "loc": list_of(&place), "msg": text(), "input": {}});
    let wrong = with(object(&wrong), json!({"ctx": dict()}));
    let app = json!({
        "name": text(),
        "rootAgentName": text(),
        "description": text(),
        "language": text(),
        "isComputerUse": {"type": "boolean"},
        "agents": {"type": ["object", "null"], "additionalProperties": named("AgentInfo")},
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
        ("Version", object(&json!({"version": text(), "language": text(), "language_version": text()}))),
        ("Whoami", object(&json!({"user": {"type": ["string", "null"]}, "admin": {"type": "boolean"}}))),
        ("Link", object(&json!({"path": text()}))),
        ("Error", error()),
        ("ValidationError", object(&json!({"detail": list_of(&wrong)}))),
        ("AppInfo", object(&app)),
        ("AgentInfo", object(&agent)),
    ]
}

/// What is wrong; where the store failed, the kind of its fault, too.
fn error() -> Value {
    let mut error = object(&json!({"detail": text()}));
    error["properties"]["kind"] = text();
    error
}

fn of_sessions() -> [(&'static str, Value); 3] {
    let session = json!({
        "id": text(),
        "appName": text(),
        "userId": text(),
        "state": dict(),
        "events": list_of(&named("Event")),
        "lastUpdateTime": number(),
    });
    let actions = json!({
        "stateDelta": dict(),
        "artifactDelta": dict(),
        "requestedAuthConfigs": dict(),
        "requestedToolConfirmations": dict(),
    });
    let flag = || json!({"type": "boolean"});
    let more = json!({"skipSummarization": flag(), "transferToAgent": text(), "escalate": flag()});
    let version = json!({
        "version": count(),
        "canonicalUri": text(),
        "customMetadata": dict(),
        "createTime": number(),
    });
    [
        ("Session", object(&session)),
        ("EventActions", with(object(&actions), more)),
        ("ArtifactVersion", with(object(&version), json!({"mimeType": text()}))),
    ]
}

fn of_runs() -> [(&'static str, Value); 4] {
    let run =
        json!({"id": text(), "status": named("RunStatus"), "createdAt": number(), "updatedAt": number()});
    let statuses = ["queued", "running", "waiting", "done", "failed", "cancelled", "interrupted"];
    let data = json!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": [named("Event"), named("StreamFailure")]},
    });
    let id = json!({"type": "string", "description": "For `Last-Event-ID`; the failure has none."});
    [
        ("RunStatus", json!({"enum": statuses})),
        ("Run", with(object(&run), json!({"position": count(), "error": text(), "lastEventId": text()}))),
        ("StreamedEvent", with(object(&json!({"data": data})), json!({"id": id}))),
        ("StreamFailure", object(&json!({"error": text(), "error_details": dict()}))),
    ]
}

fn of_the_page() -> [(&'static str, Value); 2] {
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
