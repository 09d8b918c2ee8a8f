//! Runs by their ids: begun without waiting, looked at, read again, cancelled.

use super::{
    Json,
    run::{self, RunCommand, RunHeaders},
};
use crate::{
    error::ApiError,
    input::{QueryParams, RequestBody, bodies},
    path_params::{PathParams, SessionPath},
    principal::Principal,
    sse::{self, ArtifactSplit},
    state::ServerState,
};
use adk::session::SessionKey;
use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use bridge::runs::{CancelOutcome, Place, RunView};
use serde_json::{Value, json};

/// Where a reader that comes back was.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const LISTED: u64 = 20;
const MOST: u64 = 1000;

pub(crate) async fn begin(
    State(server): State<ServerState>,
    caller: Principal,
    SessionPath(key): SessionPath,
    origin: RunHeaders,
    sent: RequestBody,
) -> Result<Response, ApiError> {
    let asked = RunCommand::of(&server, &caller, key.clone(), sent.required(&bodies::RUN_HERE)?).await?;
    run::exists(&server, &key).await?;
    let reader = run::start(&server, asked, origin).await?;
    let view = match view(&server, &key, reader.id()).await {
        // The message is stored, so the answer says so, also if the store cannot be read now.
        Err(failure) if failure.status.is_server_error() => RunView::accepted(reader.id()),
        view => view?,
    };
    let mut run = shown(&view);
    // A message that answers a question continues the run that asked: its earlier events are before this place.
    if reader.place() > Place::default() {
        run["lastEventId"] = reader.place().to_id().into();
    }
    let answer = (StatusCode::ACCEPTED, Json(run)).into_response();
    Ok(run::named(answer, &view.id))
}

pub(crate) async fn list(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let limit = query.number("limit")?.unwrap_or(LISTED).min(MOST);
    run::exists(&server, &key).await?;
    let runs = server.runs.list(&key, usize::try_from(limit).unwrap_or_default()).await?;
    Ok(Json(runs.iter().map(shown).collect::<Vec<_>>()).into_response())
}

pub(crate) async fn get(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    params: PathParams,
) -> Result<Response, ApiError> {
    Ok(Json(shown(&view(&server, &key, params.get("run")).await?)).into_response())
}

/// What is missing, and then what comes. A reader that has seen all of a run that is over is told to stop asking.
pub(crate) async fn events(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    params: PathParams,
    headers: HeaderMap,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let id = params.get("run");
    let after = place(&headers, &query)?;
    let Some(mut reader) = server.runs.reader(&key, id, after.unwrap_or_default()).await? else {
        return Err(not_found());
    };
    let is_over = view(&server, &key, id).await?.status.is_terminal();
    if after.is_some() && is_over && reader.next().await?.is_err() {
        return Ok(run::named(StatusCode::NO_CONTENT.into_response(), id));
    }
    let reader = server.runs.reader(&key, id, after.unwrap_or_default()).await?.ok_or_else(not_found)?;
    Ok(run::named(sse::answer(reader, ArtifactSplit::Keep, &server), id))
}

fn place(headers: &HeaderMap, query: &QueryParams) -> Result<Option<Place>, ApiError> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?").to_owned());
    let Some(id) = header.or_else(|| query.text("after")).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let wrong = || ApiError::bad_request(format!("{id} is not the id of an event of a run"));
    Place::from_id(&id).map(Some).ok_or_else(wrong)
}

/// Ends the model's stream and the tools; calls that are open are settled by the next message. The question of a run that waits
/// is withdrawn.
pub(crate) async fn cancel(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    params: PathParams,
) -> Result<Response, ApiError> {
    let id = params.get("run");
    match server.runs.cancel(&key, id).await? {
        CancelOutcome::Over | CancelOutcome::Requested => {
            Ok(Json(shown(&view(&server, &key, id).await?)).into_response())
        }
        CancelOutcome::Elsewhere => Err(ApiError::conflict(
            "the run belongs to another process on the same database; cancel it there",
        )),
        CancelOutcome::Busy => Err(ApiError::conflict(
            "the run waits for an answer while another run of its session goes on; cancel that one first, or try again",
        )),
        CancelOutcome::NotFound => Err(not_found()),
    }
}

async fn view(server: &ServerState, key: &SessionKey, id: &str) -> Result<RunView, ApiError> {
    server.runs.view(key, id).await?.ok_or_else(not_found)
}

fn not_found() -> ApiError {
    ApiError::not_found("Run not found")
}

fn shown(run: &RunView) -> Value {
    let mut shown = json!({
        "id": run.id,
        "status": run.status.as_str(),
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
    });
    if let Some(position) = run.position {
        shown["position"] = position.into();
    }
    if let Some(error) = &run.error {
        shown["error"] = error.as_str().into();
    }
    shown
}
