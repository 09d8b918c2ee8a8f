//! Every route of the server, in one table.

use crate::{error::Failure, state::Server};
use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};

/// The routes with what stands before them.
pub fn router(server: Server) -> Router {
    // Who may ask is decided here, before any handler: the last layer is the first to see a request.
    routes().with_state(server)
}

fn routes() -> Router<Server> {
    Router::new()
        .route("/health", get(health))
        .fallback(async || Failure::not_found("Not Found"))
        .method_not_allowed_fallback(async || {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
}

async fn health() -> impl IntoResponse {
    ([("content-type", "application/json")], r#"{"status":"ok"}"#)
}
