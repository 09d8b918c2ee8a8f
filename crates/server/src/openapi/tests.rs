//! The description against the route table, and against itself.

use super::{DOCUMENT, PAGE, operations};
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::BTreeSet;

const TABLE: &str = include_str!("../routes.rs");

/// Every method and path of the route table.
fn routes() -> BTreeSet<String> {
    let table = TABLE.split("Router::new()").nth(1).unwrap().split(".fallback(").next().unwrap();
    let mut all = BTreeSet::new();
    for route in table.split(".route(").skip(1) {
        let path = route.split('"').nth(1).unwrap();
        let handlers = route.rsplit_once('"').unwrap().1;
        let methods = ["get", "post", "put", "patch", "delete"];
        let before = all.len();
        all.extend(methods.into_iter().filter_map(|method| {
            let is_there = handlers.split(|c: char| !c.is_alphanumeric() && c != '(').any(|word| {
                word.strip_suffix('(').or(word.split_once('(').map(|(word, _)| word)) == Some(method)
            });
            is_there.then(|| format!("{method} {path}"))
        }));
        assert!(all.len() > before, "a route that cannot be read: {route}");
    }
    assert_eq!(table.matches(".route(").count(), table.matches("\"/").count());
    all
}

/// An operation as the route that answers it: a path of any length is one route, and several operations.
fn route_of(method: &str, path: &str) -> String {
    let long = ["/apps/{app}/users/{user}/sessions/{session}/artifacts/{", "/dev-ui/{"];
    let start = long.into_iter().find(|start| path.starts_with(start));
    let path = start.map_or_else(|| path.to_owned(), |start| format!("{start}*path}}"));
    format!("{method} {path}")
}

#[test]
fn every_route_is_described_and_no_description_is_without_its_route() {
    let described: BTreeSet<String> =
        operations::all().iter().map(|operation| route_of(operation.method, operation.path)).collect();
    let routes = routes();
    let missing: Vec<_> = routes.difference(&described).collect();
    let invented: Vec<_> = described.difference(&routes).collect();
    assert!(missing.is_empty() && invented.is_empty(), "missing: {missing:#?}\ninvented: {invented:#?}");
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str);
            found.extend(own.and_then(|name| name.strip_prefix("#/components/schemas/")));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_schema_that_is_named_is_there_and_every_schema_is_named() {
    let mut named = BTreeSet::new();
    references(&DOCUMENT, &mut named);
    let there: BTreeSet<&str> =
        DOCUMENT["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    let not_used: Vec<_> = there.difference(&named).filter(|name| !name.ends_with("Request")).collect();
    assert!(named.is_subset(&there), "{:?}", named.difference(&there));
    assert!(not_used.is_empty(), "{not_used:?}");
}

#[test]
fn ids_of_operations_are_unique() {
    let paths = DOCUMENT["paths"].as_object().unwrap().values();
    let ids: Vec<&str> = paths
        .flat_map(|methods| methods.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let different: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(different.len(), ids.len());
    assert_eq!(ids.len(), operations::all().len());
}

#[test]
fn a_body_is_described_in_both_spellings_and_an_answer_in_one() {
    let schemas = &DOCUMENT["components"]["schemas"];
    let shown =
        ["PatchSessionRequest", "FileDataInput", "FileData"].map(|name| format!("{name} {}", schemas[name]));
    assert_snapshot!(shown.join("\n"), @r#"
    PatchSessionRequest {"type":"object","properties":{"stateDelta":{"type":"object"},"state_delta":{"type":"object"}},"allOf":[{"anyOf":[{"required":["stateDelta"]},{"required":["state_delta"]}]}]}
    FileDataInput {"type":"object","properties":{"displayName":{"anyOf":[{"type":"string"},{"type":"null"}]},"display_name":{"anyOf":[{"type":"string"},{"type":"null"}]},"fileUri":{"anyOf":[{"type":"string"},{"type":"null"}]},"file_uri":{"anyOf":[{"type":"string"},{"type":"null"}]},"mimeType":{"anyOf":[{"type":"string"},{"type":"null"}]},"mime_type":{"anyOf":[{"type":"string"},{"type":"null"}]}},"additionalProperties":false}
    FileData {"type":"object","properties":{"displayName":{"type":"string"},"fileUri":{"type":"string"},"mimeType":{"type":"string"}}}
    "#);
    assert_snapshot!(schemas["Event"]["required"], @r#"["invocationId","author","actions","nodeInfo","id","timestamp"]"#);
}

#[test]
fn an_operation_says_its_own_answers_and_those_that_all_have() {
    let run = &DOCUMENT["paths"]["/run"]["post"]["responses"];
    let told: Vec<String> = run
        .as_object()
        .unwrap()
        .iter()
        .map(|(status, answer)| format!("{status} {}", answer["description"].as_str().unwrap()))
        .collect();
    assert_snapshot!(told.join("\n"), @"
    200 Done.
    400 No app is named, or the body cannot be read.
    401 No token, or one that is not good.
    403 A state that only agents and administrators write; or a foreign Host or Origin.
    404 No such app, or no such session of this user.
    409 The run was cancelled; or the message answers a question that nobody asks.
    413 The body is larger than the server takes.
    422 All that is wrong, each with its place.
    429 Too many requests with this token, or too many runs.
    500 The agent or its model failed.
    503 The store is locked, too busy, or its disk failed; see Retry-After.
    507 The disk of the store is full.
    ");
}

#[test]
fn the_page_shows_all_and_asks_nothing_of_anybody() {
    for (path, _) in DOCUMENT["paths"].as_object().unwrap() {
        assert!(PAGE.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for (name, _) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        assert!(PAGE.contains(&format!("<h3 id=\"{name}\">")), "{name}");
    }
    for word in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!PAGE.contains(word), "{word}");
    }
    assert!(!PAGE.contains("$ref\": \"#"), "a schema that is not linked");
}
