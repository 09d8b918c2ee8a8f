//! Every route of the server, in two tables: public routes and routes that need a principal.

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
    middleware::from_fn_with_state,
    routing::{get, patch, post},
};

/// The routes with their layers.
///
/// The router can be nested: `Router::new().nest("/agents", router(state, access))`. Redirects, login links, the login cookie,
/// `/docs` and the `servers` of `/openapi.json` then start with the prefix, and ADK's web page sends its requests below it.
///
/// Not supported:
///
/// - A prefix with path parameters: links would contain the pattern instead of its value.
/// - [`Router::merge`] into a router with a fallback or with one of the routes below.
/// - Clients that expect ADK's API at the root of the server, such as `lango chat --server`.
///
/// The log line of a request holds the path below the prefix; metrics and spans name the full route. Requests need a
/// [`PeerAddr`](crate::access::PeerAddr) extension for `X-Forwarded-*` headers to count; [`serve`](crate::serve()) inserts it.
pub fn router(server: ServerState, access: AccessControl) -> Router {
    let server = ServerState { runs_per_user: access.limits().runs_per_user, ..server };
    let authenticated = authenticated_routes()
        // Inside the layer: a client without a token does not learn which routes exist.
        .fallback(async || ApiError::not_found("Not Found"))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(access.clone(), access::authenticate));
    public_routes(&access)
        .method_not_allowed_fallback(method_not_allowed)
        .merge(authenticated)
        // The last layer is the first that a request passes.
        .layer(from_fn_with_state(access, access::check_host))
        .layer(from_fn_with_state(server.clone(), instrument::instrument))
        .with_state(server)
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

/// Routes without user data: health, login, the API description, and the files of ADK's web page.
fn public_routes(access: &AccessControl) -> Router<ServerState> {
    let authenticate = from_fn_with_state(access.clone(), access::authenticate);
    Router::new()
        .route("/health", get(apps::health))
        .route("/readyz", get(readiness::ready))
        .route("/openapi.json", get(openapi::description))
        .route("/docs", get(openapi::docs))
        .route("/login", get(login::enter).merge(post(login::create_link).layer(authenticate)))
        // ADK's web page.
        .route("/", get(dev_ui::redirect))
        .route("/dev-ui", get(dev_ui::redirect))
        .route("/dev-ui/", get(dev_ui::file))
        .route("/dev-ui/config", get(dev_ui::config))
        .route("/dev-ui/assets/config/runtime-config.json", get(dev_ui::runtime_config))
        .route("/dev-ui/{*path}", get(dev_ui::file))
}

fn authenticated_routes() -> Router<ServerState> {
    Router::new()
        // The server itself.
        .route("/metrics", get(metrics::metrics))
        .route("/version", get(apps::version))
        .route("/whoami", get(apps::whoami))
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
        // Artifacts.
        .route(
            "/apps/{app}/users/{user}/sessions/{session}/artifacts",
            get(artifacts::list).post(artifacts::save),
        )
        .route(
            "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*path}",
            get(artifacts::get).delete(artifacts::delete),
        )
        // Messages, as ADK's clients send them.
        .route("/run", post(run::run))
        .route("/run_sse", post(run::run_sse))
        .route("/run_live", get(dev::no_live))
        // Runs by id.
        .route("/apps/{app}/users/{user}/sessions/{session}/runs", get(runs::list).post(runs::start))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}", get(runs::get))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}/events", get(runs::events))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{run}/cancel", post(runs::cancel))
        // The backend of ADK's web page.
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
}
