//! The description against the route tables, and its consistency.

use super::{DOCUMENT, PAGE, operations};
use crate::routes::UNSUPPORTED;
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::BTreeSet;

const ROUTES: &str = include_str!("../routes.rs");

/// Every method and path of a route table, given the function that builds it.
fn routes_in(function: &str) -> BTreeSet<String> {
    let table = ROUTES.split(&format!("fn {function}(")).nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut all = BTreeSet::new();
    for route in table.split(".route(").skip(1) {
        let path = route.split('"').nth(1).unwrap();
        let handlers = route.rsplit_once('"').unwrap().1;
        let methods = ["get", "post", "put", "patch", "delete"];
        let before = all.len();
        all.extend(methods.into_iter().filter_map(|method| {
            let is_word = |at: usize| !handlers[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let is_used = handlers.match_indices(&format!("{method}(")).any(|(at, _)| is_word(at));
            is_used.then(|| format!("{method} {path}"))
        }));
        assert!(all.len() > before, "cannot parse the route {route}");
    }
    assert_eq!(table.matches(".route(").count(), table.matches("\"/").count());
    all
}

/// The route of an operation. A wildcard route has several operations.
fn route_of(method: &str, path: &str) -> String {
    let wildcards = ["/apps/{app}/users/{user}/sessions/{session}/artifacts/{", "/dev-ui/{"];
    let prefix = wildcards.into_iter().find(|prefix| path.starts_with(prefix));
    let path = prefix.map_or_else(|| path.to_owned(), |prefix| format!("{prefix}*path}}"));
    format!("{method} {path}")
}

fn described_routes(public: bool) -> BTreeSet<String> {
    let operations = operations::all();
    let operations = operations.iter().filter(|operation| operation.public == public);
    operations.map(|operation| route_of(operation.method, operation.path)).collect()
}

fn assert_same(routes: &BTreeSet<String>, described: &BTreeSet<String>) {
    let undescribed: Vec<_> = routes.difference(described).collect();
    let without_route: Vec<_> = described.difference(routes).collect();
    assert!(
        undescribed.is_empty() && without_route.is_empty(),
        "undescribed: {undescribed:#?}\nwithout a route: {without_route:#?}"
    );
}

#[test]
fn every_route_has_an_operation_and_every_operation_a_route() {
    let unsupported = UNSUPPORTED.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let routes = &routes_in("public_routes") | &routes_in("authenticated_routes");
    assert_same(&(&routes | &unsupported), &(&described_routes(true) | &described_routes(false)));
}

#[test]
fn public_operations_are_exactly_the_public_routes() {
    let mut public = routes_in("public_routes");
    assert!(public.remove("post /login"), "the table authenticates this route by itself");
    assert_same(&public, &described_routes(true));
}

fn collect_references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|name| name.strip_prefix("#/components/schemas/")));
            fields.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_referenced_schema_exists_and_every_schema_is_referenced() {
    let mut referenced = BTreeSet::new();
    collect_references(&DOCUMENT, &mut referenced);
    let existing: BTreeSet<&str> =
        DOCUMENT["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    let unused: Vec<_> = existing.difference(&referenced).filter(|name| !name.ends_with("Request")).collect();
    assert!(referenced.is_subset(&existing), "{:?}", referenced.difference(&existing));
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn operation_ids_are_unique() {
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
fn request_schemas_have_both_spellings_and_response_schemas_one() {
    let schemas = &DOCUMENT["components"]["schemas"];
    let lines =
        ["PatchSessionRequest", "FileDataInput", "FileData"].map(|name| format!("{name} {}", schemas[name]));
    assert_snapshot!(lines.join("\n"), @r#"
    PatchSessionRequest {"type":"object","properties":{"stateDelta":{"type":"object"},"state_delta":{"type":"object"}},"allOf":[{"anyOf":[{"required":["stateDelta"]},{"required":["state_delta"]}]}]}
    FileDataInput {"type":"object","properties":{"displayName":{"anyOf":[{"type":"string"},{"type":"null"}]},"display_name":{"anyOf":[{"type":"string"},{"type":"null"}]},"fileUri":{"anyOf":[{"type":"string"},{"type":"null"}]},"file_uri":{"anyOf":[{"type":"string"},{"type":"null"}]},"mimeType":{"anyOf":[{"type":"string"},{"type":"null"}]},"mime_type":{"anyOf":[{"type":"string"},{"type":"null"}]}},"additionalProperties":false}
    FileData {"type":"object","properties":{"displayName":{"type":"string"},"fileUri":{"type":"string"},"mimeType":{"type":"string"}}}
    "#);
    assert_snapshot!(schemas["Event"]["required"], @r#"["invocationId","author","actions","nodeInfo","id","timestamp"]"#);
}

#[test]
fn an_operation_lists_its_own_responses_and_the_common_errors() {
    let responses = &DOCUMENT["paths"]["/run"]["post"]["responses"];
    let lines: Vec<String> = responses
        .as_object()
        .unwrap()
        .iter()
        .map(|(status, response)| format!("{status} {}", response["description"].as_str().unwrap()))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    200 Success.
    400 No app is named, the message has a function call, the invocation id is invalid or belongs to an earlier run, or the body cannot be read.
    401 Token missing or invalid.
    403 A state key that only agents and administrators may write; or Host or Origin not allowed.
    404 The app does not exist, or the user has no such session.
    409 The run was cancelled; or the message answers no open question.
    413 The body exceeds the size limit.
    422 Validation errors, each with its location.
    429 Rate limit of the token, or limit of concurrent runs reached.
    500 The agent or its model failed.
    503 The store is locked, overloaded or its disk failed; see Retry-After.
    507 The disk of the store is full.
    ");
}

#[test]
fn the_page_shows_every_path_and_schema_without_external_resources() {
    for (path, _) in DOCUMENT["paths"].as_object().unwrap() {
        assert!(PAGE.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for (name, _) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        assert!(PAGE.contains(&format!("<h3 id=\"{name}\">")), "{name}");
    }
    for word in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!PAGE.contains(word), "{word}");
    }
    assert!(!PAGE.contains("$ref\": \"#"), "a reference is not rendered as a link");
}
