//! The spans of runs, in the JSON of ADK's debug API. Spans of other users' sessions are left out.

use super::Json;
use crate::{
    error::ApiError,
    path_params::{EventTracePath, PathParams, SessionTracePath},
    principal::Principal,
    state::ServerState,
};
use adk::{
    flow::spans::{EVENT_ID, INVOCATION_ID},
    trace::Span,
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashSet;

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
    logs: [(); 0],
}

#[derive(Serialize)]
struct EventSpanJson {
    #[serde(flatten)]
    attributes: Map<String, Value>,
    trace_id: u128,
    span_id: u64,
}

pub(crate) async fn list_session_spans(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionTracePath>,
) -> Response {
    let spans = server.telemetry.matching(|span| is_visible(span, &caller, &path.app, Some(&path.session)));
    let known: HashSet<u64> = spans.iter().map(|span| span.span_id).collect();
    let spans = spans.iter().map(|span| SpanJson {
        name: adk_span_name(&span.name),
        start_time: span.start,
        end_time: span.end,
        trace_id: span.trace_id,
        span_id: span.span_id,
        // A parent that is not in the list would break the page's tree.
        parent_span_id: span.parent.filter(|parent| known.contains(parent)),
        attributes: adk_attributes(span),
        logs: [],
    });
    Json(spans.collect::<Vec<_>>()).into_response()
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
        EVENT_ID => ("gcp.vertex.agent.event_id".to_owned(), value.clone()),
        INVOCATION_ID => ("gcp.vertex.agent.invocation_id".to_owned(), value.clone()),
        "gen_ai.operation.name" if value == "chat" => (name.clone(), "generate_content".into()),
        _ => (name.clone(), value.clone()),
    };
    span.attributes.iter().map(renamed).collect()
}

/// ADK's web page recognises model calls by the name `generate_content MODEL`.
fn adk_span_name(name: &str) -> String {
    name.strip_prefix("chat ").map_or_else(|| name.to_owned(), |model| format!("generate_content {model}"))
}
