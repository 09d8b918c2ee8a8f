//! Sessions: create, read, list, change the state, delete. The sessions of an app that was removed can be read, listed and
//! deleted.

use super::{json_response, null_response};
use crate::{
    body_budget::BodyCharge,
    error::ApiError,
    input::{
        QueryParams, RequestBody,
        bodies::{CreateSessionBody, PatchMemoryBody, PatchSessionBody},
    },
    path_params::{PathParams, SessionPath, UserPath},
    principal::Principal,
    session_json::{self, OpenedSession},
    state::ServerState,
    state_limit::check_state_size,
};
use adk::{
    event::{Event, EventActions, mint_id, now},
    pending::REQUEST_CONFIRMATION,
    session::SessionKey,
};
use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use bridge::{
    store::archive::SessionSummary,
    tools::{
        guard::UNTRUSTED,
        mode::{SESSION_MODE, session_delta},
    },
};
use serde_json::{Map, Value};

/// The maximum number of events per page.
const MAX_LIMIT: u64 = 1000;
/// The function calls of ADK's protocol with its clients.
const CLIENT_CALLS: [&str; 3] = [REQUEST_CONFIRMATION, "adk_request_credential", "adk_request_input"];
/// The maximum number of events of a new session. An event needs much more memory than its text.
const MAX_INITIAL_EVENTS: usize = 5000;
/// The maximum size of the temporary keys in a response, in bytes.
const MAX_TEMPORARY: usize = 16 * 1024;
/// Response header with the `after` parameter of the next page.
const NEXT_AFTER: HeaderName = HeaderName::from_static("x-next-after");

pub(crate) async fn create(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<UserPath>,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let count = body.count("events");
    if count > MAX_INITIAL_EVENTS {
        let detail =
            format!("a session is created with at most {MAX_INITIAL_EVENTS} events; the body has {count}");
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let (body, charge) = body.optional::<CreateSessionBody>()?;
    let body = body.unwrap_or_default();
    let events = check_initial_events(body.events.unwrap_or_default())?;
    if body.options.is_some_and(|options| !options.is_empty()) {
        return Err(ApiError::bad_request(
            "Session options are not supported by the configured session service.",
        ));
    }
    let key = SessionKey::new(path.app, path.user, body.session_id.unwrap_or_else(mint_id));
    store_session(
        &server,
        &caller,
        &key,
        NewSession { state: body.state.unwrap_or_default(), events, charge },
    )
    .await
}

/// The older form of the request: the path holds the id, the body is the state.
pub(crate) async fn create_with_id(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionPath>,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (state, charge) = body.dict()?;
    store_session(&server, &caller, &path.key(), NewSession { state, events: Vec::new(), charge }).await
}

/// The contents of a session that is created.
struct NewSession {
    state: Map<String, Value>,
    events: Vec<Event>,
    charge: BodyCharge,
}

async fn store_session(
    server: &ServerState,
    caller: &Principal,
    key: &SessionKey,
    NewSession { state, events, charge }: NewSession,
) -> Result<Response, ApiError> {
    server.require_app(&key.app_name)?;
    let state = caller.writable_delta(state, &Map::new())?;
    check_state_size(&Map::new(), &state)?;
    let head = create_checked(server, key, state, &events).await?;
    drop(events);
    session_response(server, head, charge, Map::new()).await
}

/// Creates a session. State that outlives it is stored afterwards, when the size of what is stored already is known.
async fn create_checked(
    server: &ServerState,
    key: &SessionKey,
    state: Map<String, Value>,
    events: &[Event],
) -> Result<SessionSummary, ApiError> {
    let is_shared = |name: &String| name.starts_with("user:") || name.starts_with("app:");
    let (shared, own): (Map<_, _>, Map<_, _>) = state.into_iter().partition(|(name, _)| is_shared(name));
    let head = server.archive.create(key, &own, events, server.session_quota).await?;
    if shared.is_empty() && !head.state.keys().any(is_shared) {
        return Ok(head);
    }
    // The part of the session is new as well.
    let before = head.state.iter().filter(|(name, _)| is_shared(name));
    let before = before.map(|(name, value)| (name.clone(), value.clone())).collect();
    let delta = own.into_iter().chain(shared.clone()).collect();
    if let Err(error) = check_state_size(&before, &delta) {
        server.archive.delete(key).await?;
        return Err(error);
    }
    if shared.is_empty() {
        return Ok(head);
    }
    server.archive.change_state(key, &shared, None).await?;
    load_head(server, key).await
}

/// Refuses initial events that would act here: a client may supply contents, but no actions, calls or confirmations. Missing ids
/// and timestamps are filled in, and partial events dropped.
fn check_initial_events(events: Vec<Event>) -> Result<Vec<Event>, ApiError> {
    let refuse = |index: usize, what: &str| {
        ApiError::bad_request(format!("Session initialization event {index} cannot include {what}."))
    };
    for (index, event) in events.iter().enumerate() {
        if event.actions != EventActions::default() {
            return Err(refuse(index, "event actions"));
        }
        if event.long_running_tool_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            return Err(refuse(index, "long-running tool IDs"));
        }
        let calls = event.calls().map(|call| call.name.as_str());
        let responses = event.responses().map(|response| response.name.as_str());
        if calls.chain(responses).any(|name| CLIENT_CALLS.contains(&name)) {
            return Err(refuse(index, "ADK protocol function calls"));
        }
    }
    let complete = |mut event: Event| {
        if event.id.is_empty() {
            event.id = mint_id();
        }
        if event.timestamp == 0.0 {
            event.timestamp = now();
        }
        event
    };
    Ok(events.into_iter().filter(|event| !event.is_partial()).map(complete).collect())
}

pub(crate) async fn get(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let key = path.key();
    let (after, limit, last) = (query.number("after")?, query.number("limit")?, query.number("last")?);
    let budget = &server.response_budget;
    let head = OpenedSession::load(budget, &key.user_id, || load_head(&server, &key)).await?;
    let after = after.or(last.map(|last| head.last_seq().saturating_sub(last))).unwrap_or(0);
    let pages = server.archive.events(&key, &root_agent(&server, &key), after);
    let Some(limit) = limit else { return session_json::session_response(head, pages, budget).await };
    let (mut response, next) = session_json::session_page(head, pages, limit.min(MAX_LIMIT), budget).await?;
    if let Some(next) = next {
        response.headers_mut().insert(NEXT_AFTER, HeaderValue::from(next));
    }
    Ok(response)
}

/// The author of stored events that have none.
fn root_agent(server: &ServerState, key: &SessionKey) -> String {
    let app = server.apps.find(&key.app_name);
    app.map(|app| app.agent.tree().root().agent.name.clone()).unwrap_or_default()
}

async fn load_head(server: &ServerState, key: &SessionKey) -> Result<SessionSummary, ApiError> {
    server.archive.head(key).await?.ok_or_else(|| ApiError::not_found("Session not found"))
}

/// A session that a request has changed, with `temporary` keys in its state. If the response must wait for memory, the head is
/// loaded again, and the memory of the request is returned before.
async fn session_response(
    server: &ServerState,
    head: SessionSummary,
    charge: BodyCharge,
    temporary: Map<String, Value>,
) -> Result<Response, ApiError> {
    let key = head.key.clone();
    let pages = server.archive.events(&key, &root_agent(server, &key), 0);
    let budget = &server.response_budget;
    let mut first = Some((head, charge));
    let load = || {
        let first = first.take();
        let (key, temporary) = (&key, &temporary);
        async move {
            let (mut head, _charge) = match first {
                Some(first) => first,
                None => (load_head(server, key).await?, BodyCharge::default()),
            };
            head.state.extend(temporary.clone());
            Ok(head)
        }
    };
    let opened = OpenedSession::load(budget, &key.user_id, load).await?;
    session_json::session_response(opened, pages, budget).await
}

/// The sessions of a user without their events: all in the order of their last change, or with `limit` a page in the order of
/// their creation, newest first.
pub(crate) async fn list(
    State(server): State<ServerState>,
    PathParams(path): PathParams<UserPath>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let after = query.number("after")?;
    if let Some(limit) = query.number("limit")?.or(after.map(|_| MAX_LIMIT)) {
        return list_page(&server, &path, after, limit).await;
    }
    let heads = server.archive.list(&path.app, &path.user).await?;
    session_json::list_response(heads, &path.user, &server.response_budget).await
}

async fn list_page(
    server: &ServerState,
    path: &UserPath,
    after: Option<u64>,
    limit: u64,
) -> Result<Response, ApiError> {
    let limit = usize::try_from(limit.min(MAX_LIMIT)).unwrap_or(usize::MAX);
    let page = || async {
        let (heads, next) = server.archive.list_page((&path.app, &path.user), after, limit).await?;
        Ok::<_, ApiError>((session_json::list_page(&heads)?, next))
    };
    let (body, next) = server.response_budget.load(&path.user, page).await?;
    let mut response = json_response(body);
    if let Some(next) = next {
        response.headers_mut().insert(NEXT_AFTER, HeaderValue::from(next));
    }
    Ok(response)
}

pub(crate) async fn patch(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionPath>,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (PatchSessionBody { mut state_delta }, charge) = body.required()?;
    let key = path.key();
    let mode = requested_mode(&caller, &mut state_delta)?;
    let head = load_head(&server, &key).await?;
    server.require_app(&key.app_name)?;
    let mut delta = caller.writable_delta(state_delta, &head.state)?;
    check_state_size(&head.state, &delta)?;
    delta.extend(mode);
    if server.runs.is_running(&key) {
        return Err(ApiError::conflict(format!(
            "session {} has an active run; change its state after the run, or with the next message",
            key.session_id
        )));
    }
    server.archive.change_state(&key, &delta, Some(head.last_seq)).await?;
    let head = load_head(&server, &key).await?;
    session_response(&server, head, charge, shown_once(delta)).await
}

/// The temporary keys of a delta, which are not stored: ADK's response shows them once. Large ones are omitted, because the response
/// may wait for memory.
fn shown_once(delta: Map<String, Value>) -> Map<String, Value> {
    let mut left = MAX_TEMPORARY;
    let mut fits = |value: &Value| {
        let size = value.to_string().len();
        let fits = size <= left;
        left -= if fits { size } else { 0 };
        fits
    };
    delta.into_iter().filter(|(name, value)| name.starts_with("temp:") && fits(value)).collect()
}

/// Takes the mode of the session out of an administrator's delta. A client that sends the whole state back, with the key of
/// untrusted text, sets no mode.
fn requested_mode(
    caller: &Principal,
    delta: &mut Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    if !caller.admin || delta.contains_key(UNTRUSTED) {
        return Ok(Map::new());
    }
    let Some(mode) = delta.shift_remove(SESSION_MODE) else { return Ok(Map::new()) };
    session_delta(&mode).map_err(ApiError::bad_request)
}

/// Cancels the runs of a session, then deletes it. Deleting an unknown session succeeds, as in ADK.
pub(crate) async fn delete(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
) -> Result<Response, ApiError> {
    let key = path.key();
    server.runs.cancel_all(&key).await;
    server.archive.delete(&key).await?;
    if let Some(upkeep) = &server.upkeep {
        upkeep.wake();
    }
    server.telemetry.forget(&key);
    if let Ok(app) = server.apps.find(&key.app_name) {
        app.agent.sessions().evict(&key);
    }
    Ok(null_response())
}

/// Adds a session with its present events to the memory of its user, which `load_memory` and `preload_memory` search.
pub(crate) async fn add_to_memory(
    State(server): State<ServerState>,
    PathParams(path): PathParams<UserPath>,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (PatchMemoryBody { session_id }, _charge) = body.required()?;
    let key = SessionKey::new(path.app, path.user, session_id);
    load_head(&server, &key).await?;
    server.require_app(&key.app_name)?;
    server.archive.memory().add_session(&key).await?;
    Ok(null_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn initial_events_with_calls_of_the_client_protocol_are_refused() {
        let event = |name: &str| -> Event {
            let call = json!({"functionCall": {"name": name, "args": {}}});
            serde_json::from_value(json!({"author": "a", "content": {"role": "model", "parts": [call]}}))
                .unwrap()
        };
        for name in ["adk_request_confirmation", "adk_request_credential", "adk_request_input"] {
            let refused = check_initial_events(vec![event("other"), event(name)]).unwrap_err();
            let expected = "Session initialization event 1 cannot include ADK protocol function calls.";
            assert_eq!(refused.detail, expected, "{name}");
        }
        assert!(check_initial_events(vec![event("other")]).is_ok());
    }
}
