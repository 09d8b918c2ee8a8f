//! The description of the API: `/openapi.json` for programs, and `/docs` for people, rendered from it.
//!
//! | module | contents |
//! |---|---|
//! | [`operations`] | every operation, in the order of the route tables |
//! | [`operation`] | the builder of an operation, and the errors that operations have in common |
//! | [`schemas`] | schemas of bodies, from their validation tables, and of responses |
//! | [`docs_page`] | the HTML page |
//!
//! **Invariant.** Every route has an operation and every operation a route: a test compares them with the route tables.

mod docs_page;
mod operation;
mod operations;
mod schemas;

#[cfg(test)]
mod tests;

use crate::{
    handlers::{Json, json_response},
    mount_path::MountPath,
};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

const DESCRIPTION: &str = "ADK's REST API, and runs that continue without their client.\n\n\
    Fields of a body may be named in camelCase or snake_case. Responses use camelCase, except for a few that ADK sends in \
    snake_case. Unknown fields of a body are ignored, except within a content, where they are errors. Errors have FastAPI's \
    format: `detail` is a message or, with status 422, the list of all validation errors.\n\n\
    The token determines the user. Resources of other users are not found. Every response has an `X-Request-Id`. A request head that \
    exceeds the size limit is answered with 431, and a connection above the connection limit with 429.";

static DOCUMENT: LazyLock<Value> = LazyLock::new(build_document);
static DOCUMENT_JSON: LazyLock<String> = LazyLock::new(|| DOCUMENT.to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| docs_page::render(&DOCUMENT));

fn build_document() -> Value {
    let mut paths = Map::new();
    for operation in operations::all() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.to_json();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lango",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"cookie": []}],
        "tags": operations::TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `lango token add`, the local token of the machine, or a JWT of the configured issuer.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "lango-18789",
                    "description": "Set by the login link of `lango serve`; the number is the port of the server.",
                },
            },
        },
    })
}

/// Handles `GET /openapi.json`. Public: it holds no user data.
pub(crate) async fn description(mount: MountPath) -> Response {
    if mount.prefix().is_empty() {
        return json_response(DOCUMENT_JSON.as_str());
    }
    let mut document = DOCUMENT.clone();
    document["servers"][0]["url"] = mount.prefix().into();
    Json(document).into_response()
}

/// The page loads no scripts and no external resources, and cannot be framed.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

/// Handles `GET /docs`.
pub(crate) async fn docs() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    (headers, PAGE.as_str()).into_response()
}
