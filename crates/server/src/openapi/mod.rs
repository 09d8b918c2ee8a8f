//! The API as it describes itself: `/openapi.json` for programs, and `/docs` for people, made from it.
//!
//! | read | for |
//! |---|---|
//! | [`operations`] | every operation, in the order of the route table |
//! | [`operation`] | how one is written down, and which errors all of them have in common |
//! | [`schemas`] | what is sent, from the tables that check it; what is answered |
//! | [`docs_page`] | the page |
//!
//! **Invariant.** Every route has its description, and no description is without its route: a test reads the route table.

mod docs_page;
mod operation;
mod operations;
mod schemas;

#[cfg(test)]
mod tests;

use crate::handlers::json_response;
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

const ABOUT: &str = "ADK's REST API, and runs that outlive those who asked for them.\n\n\
    Bodies may name their fields in camelCase or in snake_case; answers are in camelCase, but for a few that ADK prints in \
    snake_case too. Fields of a body that are not described are left alone, except within a content, where they are refused. \
    Errors are FastAPI's: `detail` is a sentence, or with 422 the list of all that is wrong.\n\n\
    The user is the token's: whatever belongs to another is not found. Every answer has an `X-Request-Id`. A head that is too \
    large is answered with 431, a server without room for more connections answers 429.";

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
static WRITTEN: LazyLock<String> = LazyLock::new(|| DOCUMENT.to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| docs_page::page(&DOCUMENT));

fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations::all() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.described();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lango",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": ABOUT,
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"cookie": []}],
        "tags": operations::TAGS.map(|(name, about)| json!({"name": name, "description": about})),
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `lango token add`, the machine's own, or a JWT that the server was told to take.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "lango-18789",
                    "description": "What the link of `lango serve` leaves in a browser; the number is the server's port.",
                },
            },
        },
    })
}

/// Open to all who may speak to the server: it says nothing of anybody.
pub(crate) async fn description() -> Response {
    json_response(WRITTEN.as_str())
}

/// No script, nothing from elsewhere, and no frame of another page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) async fn docs() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, PAGE.as_str()).into_response()
}
