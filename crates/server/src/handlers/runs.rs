//! Runs by id: start without waiting, status, event stream, cancellation.

use super::{
    Json,
    run::{self, RunCommand, RunHeaders},
};
use crate::{
    error::ApiError,
    input::{QueryParams, RequestBody},
    path_params::{PathParams, RunPath, SessionPath},
    principal::Principal,
    sse::{self, SseFraming},
    state::ServerState,
};
use adk::session::SessionKey;
use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use bridge::runs::{CancelOutcome, Cursor, ReaderItem, RunView};
use serde_json::{Value, json};

/// Request header of a reader that reconnects: the id of the last event that it received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 1000;

/// Starts a run and returns its status without waiting for events.
pub(crate) async fn start(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionPath>,
    headers: RunHeaders,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let key = path.key();
    let (body, _charge) = body.required()?;
    let command = RunCommand::in_session(&server, &caller, key.clone(), body).await?;
    run::require_session(&server, &key).await?;
    let reader = run::start(&server, command, headers).await?;
    let view = match load_run(&server, &key, reader.id()).await {
        // The message is stored, so the request succeeded even if the store cannot be read now.
        Err(error) if error.status.is_server_error() => RunView::accepted(reader.id()),
        view => view?,
    };
    let mut run = run_json(&view);
    // A message that answers a question continues the run that asked it; the run's earlier events precede this cursor.
    if reader.cursor() > Cursor::default() {
        run["lastEventId"] = reader.cursor().to_id().into();
    }
    let response = (StatusCode::ACCEPTED, Json(run)).into_response();
    Ok(run::with_run_id(response, &view.id))
}

pub(crate) async fn list(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let limit = query.number("limit")?.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let key = path.key();
    run::require_session(&server, &key).await?;
    let runs = server.runs.list(&key, usize::try_from(limit).unwrap_or_default()).await?;
    Ok(Json(runs.iter().map(run_json).collect::<Vec<_>>()).into_response())
}

pub(crate) async fn get(
    State(server): State<ServerState>,
    PathParams(path): PathParams<RunPath>,
) -> Result<Response, ApiError> {
    let run = load_run(&server, &path.session.key(), &path.run).await?;
    Ok(Json(run_json(&run)).into_response())
}

/// Streams the events after the reader's cursor, and then new ones. A reader that has every event of a finished run gets 204,
/// which tells an `EventSource` to stop reconnecting.
pub(crate) async fn events(
    State(server): State<ServerState>,
    PathParams(path): PathParams<RunPath>,
    headers: HeaderMap,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let (key, id) = (path.session.key(), path.run);
    let after = parse_cursor(&headers, &query)?;
    let Some(mut reader) = server.runs.reader(&key, &id, after.unwrap_or_default()).await? else {
        return Err(run_not_found());
    };
    let is_over = load_run(&server, &key, &id).await?.status.is_terminal();
    if after.is_some() && is_over && matches!(reader.next().await?, ReaderItem::End(_)) {
        return Ok(run::with_run_id(StatusCode::NO_CONTENT.into_response(), &id));
    }
    let reader = server.runs.reader(&key, &id, after.unwrap_or_default()).await?.ok_or_else(run_not_found)?;
    Ok(run::with_run_id(sse::stream_events(reader, SseFraming::WithCursor, &server), &id))
}

fn parse_cursor(headers: &HeaderMap, query: &QueryParams) -> Result<Option<Cursor>, ApiError> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?").to_owned());
    let Some(id) = header.or_else(|| query.text("after")).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let invalid = || ApiError::bad_request(format!("{id:?} is not the id of a streamed event"));
    Cursor::from_id(&id).map(Some).ok_or_else(invalid)
}

/// Cancels the model stream and the tool calls of a run; the next message settles its open calls. A run that waits for an
/// answer is withdrawn.
pub(crate) async fn cancel(
    State(server): State<ServerState>,
    PathParams(path): PathParams<RunPath>,
) -> Result<Response, ApiError> {
    let (key, id) = (path.session.key(), path.run);
    match server.runs.cancel(&key, &id).await? {
        CancelOutcome::Over | CancelOutcome::Requested => {
            Ok(Json(run_json(&load_run(&server, &key, &id).await?)).into_response())
        }
        CancelOutcome::Elsewhere if server.apps.find(&key.app_name).is_err() => {
            Err(ApiError::conflict(format!(
                "the run waits until the app {} can be loaded; restore the app and cancel again, or delete the session",
                key.app_name
            )))
        }
        CancelOutcome::Elsewhere => Err(ApiError::conflict(
            "the run belongs to another process on the same database; cancel it there",
        )),
        CancelOutcome::Busy => Err(ApiError::conflict(
            "the run waits for an answer while another run of its session is active; cancel that run first, or retry",
        )),
        CancelOutcome::NotFound => Err(run_not_found()),
    }
}

async fn load_run(server: &ServerState, key: &SessionKey, id: &str) -> Result<RunView, ApiError> {
    server.runs.view(key, id).await?.ok_or_else(run_not_found)
}

fn run_not_found() -> ApiError {
    ApiError::not_found("Run not found")
}

fn run_json(run: &RunView) -> Value {
    let mut json = json!({
        "id": run.id,
        "status": run.status.as_str(),
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
    });
    if let Some(position) = run.position {
        json["position"] = position.into();
    }
    if let Some(error) = &run.error {
        json["error"] = error.as_str().into();
    }
    json
}
