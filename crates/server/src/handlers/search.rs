//! Search in the sessions of a user with an app.

use super::Json;
use crate::{
    error::ApiError,
    input::QueryParams,
    path_params::{PathParams, UserPath},
    state::ServerState,
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use bridge::memory::SearchQuery;
use serde_json::{Value, json};

const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 200;

/// The messages that match, best first. Removed apps can be searched.
pub(crate) async fn search(
    State(server): State<ServerState>,
    PathParams(path): PathParams<UserPath>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let Some(text) = query.text("query").filter(|text| !text.trim().is_empty()) else {
        return Err(ApiError::bad_request("the parameter `query` with the words to look for is missing"));
    };
    let limit = query.number("limit")?.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let search = SearchQuery {
        user: path.user,
        app: Some(path.app),
        session: query.text("session"),
        text,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        ..SearchQuery::default()
    };
    let (hits, is_complete) = server.archive.memory().find(search).await?;
    let hits: Vec<Value> = hits
        .into_iter()
        .map(|hit| {
            json!({
                "sessionId": hit.key.session_id,
                "position": hit.seq.0,
                "timestamp": hit.timestamp,
                "author": hit.author,
                "snippet": hit.snippet,
            })
        })
        .collect();
    Ok(Json(json!({"hits": hits, "isComplete": is_complete})).into_response())
}
