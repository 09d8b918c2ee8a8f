//! The spans of runs, in the JSON of ADK's debug API. Spans of other users' sessions are left out.
//!
//! Spans are in memory; the requests and answers of model calls are rebuilt from the log. A stored call without a span, such
//! as one before a restart, gets a separate span.

use super::Json;
use crate::{
    error::ApiError,
    path_params::{EventTracePath, PathParams, SessionTracePath},
    principal::Principal,
    state::ServerState,
};
use adk::{
    error::ServiceError,
    flow::spans::{EVENT_ID, INVOCATION_ID},
    session::SessionKey,
    trace::Span,
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bridge::agent::inspect::{BodyCheck, CallSelection, RebuiltCall};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{collections::HashSet, time::Duration};

#[derive(Serialize)]
struct SpanJson {
    name: String,
    start_time: u64,
    end_time: u64,
    /// A JSON number, as in ADK, although it exceeds the integers that JavaScript represents exactly.
    trace_id: u128,
    span_id: u64,
    parent_span_id: Option<u64>,
    attributes: Map<String, Value>,
    logs: Vec<SpanLog>,
}

/// A log record of a span. ADK's web page shows the request and the answer of a model call from it.
#[derive(Serialize)]
struct SpanLog {
    event_name: &'static str,
    attributes: Map<String, Value>,
}

#[derive(Serialize)]
struct EventSpanJson {
    #[serde(flatten)]
    attributes: Map<String, Value>,
    trace_id: u128,
    span_id: u64,
}

/// How many model calls of a session are rebuilt for its list of spans, newest first.
const MAX_CALLS: usize = 50;
/// The sum of the details in a list, in bytes. Older calls have no details.
const MAX_DETAILS: usize = 2 * 1024 * 1024;
/// How many sessions with the same id, of different users, are looked at.
const MAX_OWNERS: usize = 16;
const ADK_EVENT_ID: &str = "gcp.vertex.agent.event_id";
const ADK_INVOCATION_ID: &str = "gcp.vertex.agent.invocation_id";
const DETAILS: &str = "gen_ai.client.inference.operation.details";

pub(crate) async fn list_session_spans(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionTracePath>,
) -> Result<Response, ApiError> {
    let load = || async { serialize_session_spans(&server, &caller, &path).await.map(|json| (json, ())) };
    let user = caller.user.as_deref().unwrap_or_default();
    let (json, ()) = server.response_budget.load(user, load).await?;
    Ok(super::json_response(json))
}

async fn serialize_session_spans(
    server: &ServerState,
    caller: &Principal,
    path: &SessionTracePath,
) -> Result<Vec<u8>, ApiError> {
    let spans = server.telemetry.matching(|span| is_visible(span, caller, &path.app, Some(&path.session)));
    let known: HashSet<u64> = spans.iter().map(|span| span.span_id).collect();
    let mut calls = CallDetails::load(server, caller, path).await?;
    let mut list: Vec<SpanJson> = spans
        .iter()
        .map(|span| {
            let (details, logs) = calls.take(span.attributes.get(EVENT_ID).filter(|_| is_model_call(span)));
            SpanJson {
                name: adk_span_name(&span.name),
                start_time: span.start,
                end_time: span.end,
                trace_id: span.trace_id,
                span_id: span.span_id,
                // A parent that is not in the list would break the page's tree.
                parent_span_id: span.parent.filter(|parent| known.contains(parent)),
                attributes: adk_attributes(span).into_iter().chain(details).collect(),
                logs,
            }
        })
        .collect();
    list.splice(0..0, calls.into_spans(&path.session));
    serde_json::to_vec(&list)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

pub(crate) async fn get_event_span(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<EventTracePath>,
) -> Result<Response, ApiError> {
    let spans = server.telemetry.matching(|span| {
        span.attributes.get(EVENT_ID).is_some_and(|id| id == path.event.as_str())
            && is_visible(span, &caller, &path.app, None)
    });
    let span = spans.last().ok_or_else(|| ApiError::not_found("Trace not found"))?;
    let span =
        EventSpanJson { attributes: adk_attributes(span), trace_id: span.trace_id, span_id: span.span_id };
    Ok(Json(span).into_response())
}

/// Rebuilt model calls of a session, newest first.
#[derive(Default)]
struct CallDetails(Vec<RebuiltCall>);

impl CallDetails {
    /// Calls of an app that does not exist or cannot be loaded have no details.
    async fn load(
        server: &ServerState,
        caller: &Principal,
        path: &SessionTracePath,
    ) -> Result<Self, ApiError> {
        let Ok(app) = server.app(caller, &path.app) else { return Ok(Self::default()) };
        let users = match &caller.user {
            Some(user) => vec![user.clone()],
            None => server.archive.users_of(&path.app, &path.session, MAX_OWNERS).await?,
        };
        let mut calls = Vec::new();
        for user in users.iter().filter(|user| caller.may_access(user)) {
            let key = SessionKey::new(&path.app, user, &path.session);
            match app.agent.model_calls(&key, CallSelection::Newest(MAX_CALLS)).await {
                Ok(found) => calls.extend(found),
                Err(ServiceError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(within(calls)))
    }

    /// The attributes and the log record of the call that the event answers.
    fn take(&mut self, event: Option<&Value>) -> (Map<String, Value>, Vec<SpanLog>) {
        let at = event.and_then(|event| self.0.iter().position(|call| *event == call.answer.id.as_str()));
        at.map_or_else(Default::default, |at| details(&self.0.remove(at)))
    }

    /// Spans for the remaining calls, oldest first.
    fn into_spans(self, session: &str) -> Vec<SpanJson> {
        self.0.iter().rev().map(|call| stored_span(call, session)).collect()
    }
}

/// The newest calls whose requests fit the limit.
fn within(calls: Vec<RebuiltCall>) -> Vec<RebuiltCall> {
    let mut left = MAX_DETAILS;
    calls.into_iter().take_while(|call| take_size(&mut left, call)).collect()
}

fn take_size(left: &mut usize, call: &RebuiltCall) -> bool {
    let rest = left.checked_sub(call.size());
    *left = rest.unwrap_or_default();
    rest.is_some()
}

fn details(call: &RebuiltCall) -> (Map<String, Value>, Vec<SpanLog>) {
    let mut attributes = Map::new();
    if let Some(hash) = &call.sha256 {
        attributes.insert("lango.request.sha256".to_owned(), hash.as_str().into());
    }
    let check = match call.check {
        BodyCheck::Verified => "verified",
        BodyCheck::Differs => "differs",
        BodyCheck::Unknown => "unknown",
    };
    attributes.insert("lango.request.check".to_owned(), check.into());
    (attributes, vec![SpanLog { event_name: DETAILS, attributes: call.details() }])
}

/// The span of a call that has no span in memory. Its ids are derived from the event, so that they do not change.
fn stored_span(call: &RebuiltCall, session: &str) -> SpanJson {
    let (mut attributes, logs) = details(call);
    let answer = &call.answer;
    for (name, value) in [
        ("gen_ai.operation.name", "generate_content"),
        ("gen_ai.request.model", &call.request.model),
        ("gen_ai.agent.name", &call.agent),
        ("gen_ai.conversation.id", session),
        (ADK_EVENT_ID, &answer.id),
        (ADK_INVOCATION_ID, &answer.invocation_id),
    ] {
        attributes.insert(name.to_owned(), value.into());
    }
    let at = Duration::try_from_secs_f64(answer.timestamp).unwrap_or_default();
    let at = u64::try_from(at.as_nanos()).unwrap_or_default();
    SpanJson {
        name: format!("generate_content {}", call.request.model),
        start_time: at,
        end_time: at,
        trace_id: stable_id(&answer.invocation_id).into(),
        span_id: stable_id(&answer.id),
        parent_span_id: None,
        attributes,
        logs,
    }
}

/// FNV-1a: the same in every process.
fn stable_id(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn is_model_call(span: &Span) -> bool {
    span.attributes.get("gen_ai.operation.name").is_some_and(|name| name == "chat")
}

fn is_visible(span: &Span, caller: &Principal, app: &str, session: Option<&str>) -> bool {
    span.session.as_deref().is_some_and(|key| {
        key.app_name == app
            && session.is_none_or(|session| key.session_id == session)
            && caller.may_access(&key.user_id)
    })
}

/// The attributes of a span under ADK's names.
fn adk_attributes(span: &Span) -> Map<String, Value> {
    let renamed = |(name, value): (&String, &Value)| match name.as_str() {
        EVENT_ID => (ADK_EVENT_ID.to_owned(), value.clone()),
        INVOCATION_ID => (ADK_INVOCATION_ID.to_owned(), value.clone()),
        "gen_ai.operation.name" if value == "chat" => (name.clone(), "generate_content".into()),
        _ => (name.clone(), value.clone()),
    };
    span.attributes.iter().map(renamed).collect()
}

/// ADK's web page recognises model calls by the name `generate_content MODEL`.
fn adk_span_name(name: &str) -> String {
    name.strip_prefix("chat ").map_or_else(|| name.to_owned(), |model| format!("generate_content {model}"))
}
