//! Runs by their ids: begun without waiting, looked at, read again, cancelled.

use super::{
    Json,
    run::{self, Asked, Origin},
};
use crate::{
    error::Failure,
    input::{Query, Sent, bodies},
    params::{OfSession, Params},
    principal::Principal,
    sse::{self, Splits},
    state::Server,
};
use adk::session::SessionKey;
use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use bridge::runs::{CancelOutcome, Cursor, ReaderItem, RunView};
use serde_json::{Value, json};

/// Where a reader that comes back was.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const LISTED: u64 = 20;
const MOST: u64 = 1000;

pub(crate) async fn begin(
    State(server): State<Server>,
    caller: Principal,
    OfSession(key): OfSession,
    origin: Origin,
    sent: Sent,
) -> Result<Response, Failure> {
    let asked = Asked::of(&server, &caller, key.clone(), sent.required(&bodies::RUN_HERE)?).await?;
    run::exists(&server, &key).await?;
    let reader = run::start(&server, asked, origin).await?;
    let view = match view(&server, &key, reader.id()).await {
        // The message is stored, so the answer says so, also if the store cannot be read now.
        Err(failure) if failure.status.is_server_error() => RunView::accepted(reader.id()),
        view => view?,
    };
    let mut run = shown(&view);
    // A message that answers a question continues the run that asked: its earlier events are before this place.
    if reader.cursor() > Cursor::default() {
        run["lastEventId"] = reader.cursor().to_id().into();
    }
    let answer = (StatusCode::ACCEPTED, Json(run)).into_response();
    Ok(run::named(answer, &view.id))
}

pub(crate) async fn list(
    State(server): State<Server>,
    OfSession(key): OfSession,
    query: Query,
) -> Result<Response, Failure> {
    let limit = query.number("limit")?.unwrap_or(LISTED).min(MOST);
    run::exists(&server, &key).await?;
    let runs = server.runs.list(&key, usize::try_from(limit).unwrap_or_default()).await?;
    Ok(Json(runs.iter().map(shown).collect::<Vec<_>>()).into_response())
}

pub(crate) async fn get(
    State(server): State<Server>,
    OfSession(key): OfSession,
    params: Params,
) -> Result<Response, Failure> {
    Ok(Json(shown(&view(&server, &key, params.get("run")).await?)).into_response())
}

/// What is missing, and then what comes. A reader that has seen all of a run that is over is told to stop asking.
pub(crate) async fn events(
    State(server): State<Server>,
    OfSession(key): OfSession,
    params: Params,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, Failure> {
    let id = params.get("run");
    let after = place(&headers, &query)?;
    let Some(mut reader) = server.runs.reader(&key, id, after.unwrap_or_default()).await? else {
        return Err(not_found());
    };
    let is_over = view(&server, &key, id).await?.status.is_terminal();
    if after.is_some() && is_over && matches!(reader.next().await?, ReaderItem::End(_)) {
        return Ok(run::named(StatusCode::NO_CONTENT.into_response(), id));
    }
    let reader = server.runs.reader(&key, id, after.unwrap_or_default()).await?.ok_or_else(not_found)?;
    Ok(run::named(sse::answer(reader, Splits::Nothing, &server), id))
}

fn place(headers: &HeaderMap, query: &Query) -> Result<Option<Cursor>, Failure> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?").to_owned());
    let Some(id) = header.or_else(|| query.text("after")).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let wrong = || Failure::bad_request(format!("{id} is not the id of an event of a run"));
    Cursor::from_id(&id).map(Some).ok_or_else(wrong)
}

/// Ends the model's stream and the tools; calls that are open are settled by the next message. The question of a run that waits
/// is withdrawn.
pub(crate) async fn cancel(
    State(server): State<Server>,
    OfSession(key): OfSession,
    params: Params,
) -> Result<Response, Failure> {
    let id = params.get("run");
    match server.runs.cancel(&key, id).await? {
        CancelOutcome::Over | CancelOutcome::Requested => {
            Ok(Json(shown(&view(&server, &key, id).await?)).into_response())
        }
        CancelOutcome::Elsewhere => {
            Err(Failure::conflict("the run belongs to another process on the same database; cancel it there"))
        }
        CancelOutcome::Busy => Err(Failure::conflict(
            "the run waits for an answer while another run of its session goes on; cancel that one first, or try again",
        )),
        CancelOutcome::NotFound => Err(not_found()),
    }
}

async fn view(server: &Server, key: &SessionKey, id: &str) -> Result<RunView, Failure> {
    server.runs.view(key, id).await?.ok_or_else(not_found)
}

fn not_found() -> Failure {
    Failure::not_found("Run not found")
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
