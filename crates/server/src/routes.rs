//! Every route of the server, in one table.

use crate::{
    access::{self, AccessControl},
    auth::login,
    error::ApiError,
    handlers::{apps, artifacts, dev, dev_ui, run, runs, sessions, traces},
    instrument, metrics, openapi, readiness,
    state::ServerState,
};
use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{get, patch, post},
};

/// The routes with what stands before them; the last layer is the first to see a request.
pub fn router(server: ServerState, access: AccessControl) -> Router {
    let server = ServerState { runs_per_user: access.limits().runs_per_user, ..server };
    routes()
        // Who may ask is decided here, before any handler.
        .layer(middleware::from_fn_with_state(access, access::admit))
        .layer(middleware::from_fn_with_state(server.clone(), instrument::instrument))
        .with_state(server)
}

fn routes() -> Router<ServerState> {
    Router::new()
        // The server itself.
        .route("/health", get(apps::health))
        .route("/readyz", get(readiness::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/version", get(apps::version))
        .route("/whoami", get(apps::whoami))
        .route("/openapi.json", get(openapi::description))
        .route("/docs", get(openapi::docs))
        .route("/login", get(login::enter).post(login::link))
        // Apps.
        .route("/list-apps", get(apps::list))
        .route("/apps/{app}/app-info", get(apps::info))
        // Sessions.
        .route("/apps/{app}/users/{user}/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/apps/{app}/users/{user}/sessions/{session}",
            get(sessions::get).post(sessions::create_with_id).patch(sessions::patch).delete(sessions::delete),
        )
        .route("/apps/{app}/users/{user}/memory", patch(sessions::add_to_memory))
        // Files.
        .route(
            "/apps/{app}/users/{user}/sessions/{session}/artifacts",
            get(artifacts::list).post(artifacts::save),
        )
        .route(
            "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*path}",
            get(artifacts::get).delete(artifacts::delete),
        )
        // Messages, as ADK sends them.
        .route("/run", post(run::run))
        .route("/run_sse", post(run::run_sse))
        .route("/run_live", get(dev::no_live))
        // Runs, which outlive those who asked for them.
        .route("/apps/{app}/users/{user}/sessions/{session}/runs", get(runs::list).post(runs::start))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}", get(runs::get))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}/events", get(runs::events))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}/cancel", post(runs::cancel))
        // ADK's web page, and what it asks for.
        .route("/", get(dev_ui::redirect))
        .route("/dev-ui", get(dev_ui::redirect))
        .route("/dev-ui/", get(dev_ui::file))
        .route("/dev-ui/config", get(dev_ui::config))
        .route("/dev-ui/assets/config/runtime-config.json", get(dev_ui::runtime_config))
        .route("/dev-ui/{*path}", get(dev_ui::file))
        .route("/config/telemetry", get(dev::telemetry).post(dev::telemetry))
        .route("/dev/apps/{app}/build_graph", get(dev::build_graph))
        .route("/dev/apps/{app}/build_graph_image", get(dev::build_graph_image))
        .route("/dev/apps/{app}/graph", get(dev::graph))
        .route("/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph", get(dev::event_graph))
        .route("/dev/apps/{app}/debug/trace/{event}", get(traces::get_event_span))
        .route("/dev/apps/{app}/debug/trace/session/{session}", get(traces::list_session_spans))
        .route("/dev/apps/{app}/eval_sets", get(dev::empty_list))
        .route("/dev/apps/{app}/eval-sets", get(dev::no_eval_sets))
        .route("/dev/apps/{app}/eval_results", get(dev::empty_list))
        .route("/dev/apps/{app}/eval-results", get(dev::no_eval_results))
        .route("/dev/apps/{app}/metrics-info", get(dev::no_metrics))
        .route("/dev/apps/{app}/tests", get(dev::empty_list))
        .route("/dev/apps/{app}/builder", get(dev::no_builder))
        .fallback(async || ApiError::not_found("Not Found"))
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
}
