//! What ADK's page shows of a run: its spans, as ADK's server tells them. Another user's are not there.

use super::Json;
use crate::{error::ApiError, path_params::PathParams, principal::Principal, state::ServerState};
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
    /// Beyond what a script can count, but so does ADK.
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

pub(crate) async fn of_session(
    State(server): State<ServerState>,
    caller: Principal,
    params: PathParams,
) -> Response {
    let (app, session) = (params.get("app"), params.get("session"));
    let spans = server.telemetry.matching(|span| is_theirs(span, &caller, app, Some(session)));
    let known: HashSet<u64> = spans.iter().map(|span| span.span_id).collect();
    let shown = spans.iter().map(|span| SpanJson {
        name: in_adks_words(&span.name),
        start_time: span.start,
        end_time: span.end,
        trace_id: span.trace_id,
        span_id: span.span_id,
        // What began elsewhere has no parent here.
        parent_span_id: span.parent.filter(|parent| known.contains(parent)),
        attributes: attributes(span),
        logs: [],
    });
    Json(shown.collect::<Vec<_>>()).into_response()
}

pub(crate) async fn of_event(
    State(server): State<ServerState>,
    caller: Principal,
    params: PathParams,
) -> Result<Response, ApiError> {
    let (app, event) = (params.get("app"), params.get("event"));
    let spans = server.telemetry.matching(|span| {
        span.attributes.get(EVENT_ID).is_some_and(|id| id == event) && is_theirs(span, &caller, app, None)
    });
    let span = spans.last().ok_or_else(|| ApiError::not_found("Trace not found"))?;
    let shown =
        EventSpanJson { attributes: attributes(span), trace_id: span.trace_id, span_id: span.span_id };
    Ok(Json(shown).into_response())
}

fn is_theirs(span: &Span, caller: &Principal, app: &str, session: Option<&str>) -> bool {
    span.session.as_deref().is_some_and(|key| {
        key.app_name == app
            && session.is_none_or(|session| key.session_id == session)
            && caller.may_be(&key.user_id)
    })
}

fn attributes(span: &Span) -> Map<String, Value> {
    let renamed = |(name, value): (&String, &Value)| match name.as_str() {
        EVENT_ID => ("gcp.vertex.agent.event_id".to_owned(), value.clone()),
        INVOCATION_ID => ("gcp.vertex.agent.invocation_id".to_owned(), value.clone()),
        "gen_ai.operation.name" if value == "chat" => (name.clone(), "generate_content".into()),
        _ => (name.clone(), value.clone()),
    };
    span.attributes.iter().map(renamed).collect()
}

/// The page knows model calls by this name.
fn in_adks_words(name: &str) -> String {
    name.strip_prefix("chat ").map_or_else(|| name.to_owned(), |model| format!("generate_content {model}"))
}
