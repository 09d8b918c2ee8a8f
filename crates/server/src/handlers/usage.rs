//! Usage and context: sums of tokens with their cost, what the next request of a session would show, and advancing its window.

use super::Json;
use crate::{
    error::ApiError,
    input::QueryParams,
    path_params::{PathParams, SessionPath},
    principal::Principal,
    state::ServerState,
};
use adk::error::RunError;
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bridge::store::usage_report::{UsageGroup, UsageQuery, group_of, parse_day};

/// The name of the model among the dimensions of `by`. The store tells models apart in any case.
const MODEL: &str = "model";

/// Sums of tokens. A caller who is no administrator sees only their own.
pub(crate) async fn usage(
    State(server): State<ServerState>,
    caller: Principal,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let user = query.text("user");
    if user.as_deref().is_some_and(|user| !caller.may_access(user)) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "only administrators see the usage of other users"));
    }
    let by = query.text("by").unwrap_or_else(|| format!("day,{MODEL}"));
    let (groups, by_model) = groups(&by)?;
    let selected = UsageQuery {
        app: query.text("app"),
        user: user.or_else(|| caller.user.clone()),
        session: query.text("session"),
        agent: query.text("agent"),
        model: query.text(MODEL),
        from: day(&query, "from")?,
        to: day(&query, "to")?,
        groups,
    };
    // A principal without a user must be an administrator.
    if selected.user.is_none() && !caller.admin {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "this token belongs to no user"));
    }
    let report = server.archive.usage(selected, by_model, &server.prices).await?;
    Ok(Json(report).into_response())
}

fn groups(by: &str) -> Result<(Vec<UsageGroup>, bool), ApiError> {
    let names: Vec<&str> = by.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let group = |name: &str| {
        group_of(name).ok_or_else(|| {
            ApiError::bad_request(format!(
                "`by` has {name:?}; it is a list of day, app, user, session, agent and {MODEL}"
            ))
        })
    };
    let named = names.iter().filter(|name| **name != MODEL).map(|name| group(name));
    Ok((named.collect::<Result<_, _>>()?, names.contains(&MODEL)))
}

fn day(query: &QueryParams, name: &'static str) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.text(name) else { return Ok(None) };
    let invalid =
        || ApiError::bad_request(format!("`{name}` is {text:?}; it must be a day such as 2026-11-19"));
    parse_day(&text).map(Some).ok_or_else(invalid)
}

/// The usage of the newest run, of the session, and of its user today.
pub(crate) async fn of_session(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
) -> Result<Response, ApiError> {
    let key = path.key();
    super::run::require_session(&server, &key).await?;
    Ok(Json(server.archive.session_usage(&key, &server.prices).await?).into_response())
}

/// What the next request of the session would show. Stores nothing.
pub(crate) async fn context(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionPath>,
) -> Result<Response, ApiError> {
    let key = path.key();
    let app = server.app(&caller, &key.app_name)?;
    super::run::require_session(&server, &key).await?;
    Ok(Json(app.agent.context(&key).await.map_err(refused)?).into_response())
}

/// Advances the window of the session now.
pub(crate) async fn compact(
    State(server): State<ServerState>,
    caller: Principal,
    PathParams(path): PathParams<SessionPath>,
) -> Result<Response, ApiError> {
    let key = path.key();
    let app = server.app(&caller, &key.app_name)?;
    super::run::require_session(&server, &key).await?;
    if server.runs.is_running(&key) {
        let id = &key.session_id;
        return Err(ApiError::conflict(format!("session {id} has an active run; compact it after the run")));
    }
    Ok(Json(app.agent.compact(&key).await.map_err(refused)?).into_response())
}

/// A request that cannot be built, such as an instruction with a missing state key, conflicts with the state of the session.
fn refused(error: RunError) -> ApiError {
    if let RunError::Service(error) = error {
        return error.into();
    }
    if matches!(error, RunError::SessionNotFound(_)) {
        return ApiError::not_found("Session not found");
    }
    ApiError::conflict(error.to_string())
}
