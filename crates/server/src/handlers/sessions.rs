//! Sessions: made, looked at, changed and removed.

use super::{Json, null};
use crate::{
    error::Failure,
    input::{Query, Sent, bodies},
    params::{OfSession, OfUser},
    principal::Principal,
    session_json,
    state::Server,
};
use adk::{
    event::{Event, EventActions, mint_id, now},
    pending::REQUEST_CONFIRMATION,
    session::SessionKey,
};
use axum::{
    extract::State,
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use bridge::store::archive::SessionSummary;
use serde_json::{Map, Value};

/// The most events that one page may have.
const LARGEST: u64 = 1000;
/// Where the page after this one begins.
const NEXT: HeaderName = HeaderName::from_static("x-next-after");

pub(crate) async fn create(
    State(server): State<Server>,
    caller: Principal,
    place: OfUser,
    sent: Sent,
) -> Result<Response, Failure> {
    let mut id = None;
    let (mut state, mut events) = (Map::new(), Vec::new());
    if let Some(mut fields) = sent.optional(&bodies::CREATE_SESSION)? {
        id = fields.text("sessionId");
        state = fields.map("state").unwrap_or_default();
        events = restored(fields.read("events")?.unwrap_or_default())?;
        if fields.map("options").is_some_and(|options| !options.is_empty()) {
            return Err(Failure::bad_request(
                "Session options are not supported by the configured session service.",
            ));
        }
    }
    let key = SessionKey::new(place.app, place.user, id.unwrap_or_else(mint_id));
    make(&server, &caller, &key, (state, &events)).await
}

/// The older form: the id is in the path, and the body is the state.
pub(crate) async fn create_as(
    State(server): State<Server>,
    caller: Principal,
    OfSession(key): OfSession,
    sent: Sent,
) -> Result<Response, Failure> {
    make(&server, &caller, &key, (sent.map()?, &[])).await
}

async fn make(
    server: &Server,
    caller: &Principal,
    key: &SessionKey,
    (state, events): (Map<String, Value>, &[Event]),
) -> Result<Response, Failure> {
    let state = caller.changes(state, &Map::new())?;
    let head = server.archive.create(key, &state, events).await?;
    whole(server, head).await
}

/// Events from elsewhere: what was said, and nothing that would do anything here.
fn restored(events: Vec<Event>) -> Result<Vec<Event>, Failure> {
    let refused = |number: usize, what: &str| {
        Failure::bad_request(format!("Session initialization event {number} cannot include {what}."))
    };
    for (number, event) in events.iter().enumerate() {
        if event.actions != EventActions::default() {
            return Err(refused(number, "event actions"));
        }
        if event.long_running_tool_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            return Err(refused(number, "long-running tool IDs"));
        }
        let calls = event.calls().map(|call| call.name.as_str());
        let responses = event.responses().map(|response| response.name.as_str());
        if calls.chain(responses).any(|name| name == REQUEST_CONFIRMATION) {
            return Err(refused(number, "ADK protocol function calls"));
        }
    }
    let named = |mut event: Event| {
        if event.id.is_empty() {
            event.id = mint_id();
        }
        if event.timestamp == 0.0 {
            event.timestamp = now();
        }
        event
    };
    Ok(events.into_iter().filter(|event| !event.is_partial()).map(named).collect())
}

pub(crate) async fn get(
    State(server): State<Server>,
    OfSession(key): OfSession,
    query: Query,
) -> Result<Response, Failure> {
    let (after, limit, last) = (query.number("after")?, query.number("limit")?, query.number("last")?);
    let head = found(&server, &key).await?;
    let after = after.or(last.map(|last| head.last_seq.saturating_sub(last))).unwrap_or(0);
    let pages = server.archive.events(&key, &root_agent(&server, &key), after);
    let Some(limit) = limit else { return session_json::answer(head, pages).await };
    let (body, next) = session_json::page(&head, pages, limit.min(LARGEST)).await?;
    let mut response = super::json(body);
    if let Some(next) = next {
        response.headers_mut().insert(NEXT, HeaderValue::from(next));
    }
    Ok(response)
}

/// The name that events without an author are given.
fn root_agent(server: &Server, key: &SessionKey) -> String {
    let app = server.apps.find(&key.app_name);
    app.map(|app| app.agent.tree().root().agent.name.clone()).unwrap_or_default()
}

async fn found(server: &Server, key: &SessionKey) -> Result<SessionSummary, Failure> {
    server.archive.head(key).await?.ok_or_else(|| Failure::not_found("Session not found"))
}

async fn whole(server: &Server, head: SessionSummary) -> Result<Response, Failure> {
    let pages = server.archive.events(&head.key, &root_agent(server, &head.key), 0);
    session_json::answer(head, pages).await
}

/// Without their events, the one that was changed last at the end.
pub(crate) async fn list(State(server): State<Server>, place: OfUser) -> Result<Response, Failure> {
    session_json::list(server.archive.list(&place.app, &place.user).await?).await
}

pub(crate) async fn patch(
    State(server): State<Server>,
    caller: Principal,
    OfSession(key): OfSession,
    sent: Sent,
) -> Result<Response, Failure> {
    let delta = sent.required(&bodies::PATCH_SESSION)?.map("stateDelta").unwrap_or_default();
    let head = found(&server, &key).await?;
    let delta = caller.changes(delta, &head.state)?;
    if server.runs.is_running(&key) {
        return Err(Failure::conflict(format!(
            "session {} is in a run; its state can be changed when the run is over, or with the next message",
            key.session_id
        )));
    }
    server.archive.change_state(&key, &delta, Some(head.last_seq)).await?;
    let mut head = found(&server, &key).await?;
    let fleeting = delta.into_iter().filter(|(name, _)| name.starts_with("temp:"));
    head.state.extend(fleeting);
    whole(&server, head).await
}

/// What runs in it ends first.
pub(crate) async fn delete(
    State(server): State<Server>,
    OfSession(key): OfSession,
) -> Result<Response, Failure> {
    server.runs.cancel_all(&key).await;
    server.archive.delete(&key).await?;
    if let Ok(app) = server.app(&key.app_name) {
        app.agent.sessions().forget(&key);
    }
    Ok(null())
}

/// Every session is remembered as it is; there is nothing to add it to.
pub(crate) async fn remember(
    State(server): State<Server>,
    place: OfUser,
    sent: Sent,
) -> Result<Response, Failure> {
    let id = sent.required(&bodies::PATCH_MEMORY)?.text("sessionId").unwrap_or_default();
    found(&server, &SessionKey::new(place.app, place.user, id)).await?;
    Ok(Json(Value::Null).into_response())
}
