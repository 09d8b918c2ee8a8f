//! All HTTP routes of the server, in three tables: public routes, routes that need a principal, and ADK's operations that this
//! server does not have.

use crate::{
    access::{self, AccessControl},
    auth::login,
    error::ApiError,
    handlers::{apps, artifacts, dev, dev::EVALUATION, dev_ui, run, runs, search, sessions, traces, usage},
    instrument, metrics, openapi, readiness,
    state::ServerState,
    visible,
};
use axum::{
    Router,
    http::StatusCode,
    middleware::from_fn_with_state,
    routing::{MethodFilter, get, on, patch, post},
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
    let server = server.with_limits(access.limits());
    let authenticated = add_unsupported(authenticated_routes())
        // Inside the layer: a client without a token does not learn which routes exist.
        .fallback(async || ApiError::not_found("Not Found"))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(access.clone(), access::authenticate));
    public_routes(&access)
        .method_not_allowed_fallback(method_not_allowed)
        .merge(authenticated)
        // The last layer is the first that a request passes.
        .layer(from_fn_with_state(access.clone(), access::check_host))
        .layer(from_fn_with_state(server.clone(), instrument::instrument))
        .layer(from_fn_with_state(access, visible::show_invisible))
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
        .route("/usage", get(usage::usage))
        // Apps.
        .route("/list-apps", get(apps::list))
        .route("/apps/{app}/app-info", get(apps::info))
        // Sessions.
        .route("/apps/{app}/users/{user}/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/apps/{app}/users/{user}/sessions/{session}",
            get(sessions::get).post(sessions::create_with_id).patch(sessions::patch).delete(sessions::delete),
        )
        .route("/apps/{app}/users/{user}/search", get(search::search))
        .route("/apps/{app}/users/{user}/sessions/{session}/context", get(usage::context))
        .route("/apps/{app}/users/{user}/sessions/{session}/compact", post(usage::compact))
        .route("/apps/{app}/users/{user}/sessions/{session}/usage", get(usage::of_session))
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
        .route("/dev/apps/{app}/eval_sets/{set}/evals", get(dev::no_eval_set))
        .route("/dev/apps/{app}/eval_sets/{set}/evals/{case}", get(dev::no_eval_case))
        .route("/dev/apps/{app}/eval-sets/{set}/eval-cases/{case}", get(dev::no_eval_case))
        .route("/dev/apps/{app}/eval_results", get(dev::empty_list))
        .route("/dev/apps/{app}/eval-results", get(dev::no_eval_results))
        .route("/dev/apps/{app}/eval_results/{result}", get(dev::no_eval_result))
        .route("/dev/apps/{app}/eval-results/{result}", get(dev::no_eval_result))
        .route("/dev/apps/{app}/metrics-info", get(dev::no_metrics))
        .route("/dev/apps/{app}/tests", get(dev::empty_list))
        .route("/dev/apps/{app}/tests/{test}", get(dev::no_test))
        .route("/dev/apps/{app}/builder", get(dev::no_builder))
}

const TESTS: &str = "this server has no agent tests; record and run them with google-adk";
const BUILDER: &str = "this server does not edit agents; change their files, and the server loads them again";
const DEPLOYMENT: &str = "this server does not deploy agents; copy their files to the server that runs them";
const LIVE: &str = "this server does not support live audio; send messages to /run_sse";
const IDENTITY: &str = "this server does not support Google's agent identity";

/// ADK's operations that answer 501, each with its method and reason.
pub(crate) const UNSUPPORTED: &[(&str, &str, &str)] = &[
    ("get", "/run_live", LIVE),
    ("post", "/agent-identity/finalize", IDENTITY),
    ("post", "/dev/apps/{app}/builder/save", BUILDER),
    ("post", "/dev/apps/{app}/builder/cancel", BUILDER),
    ("post", "/dev/apps/{app}/tests/rebuild", TESTS),
    ("post", "/dev/apps/{app}/tests/run", TESTS),
    ("put", "/dev/apps/{app}/tests/{test}", TESTS),
    ("delete", "/dev/apps/{app}/tests/{test}", TESTS),
    ("post", "/dev/apps/{app}/eval-sets", EVALUATION),
    ("post", "/dev/apps/{app}/eval_sets/{set}", EVALUATION),
    ("post", "/dev/apps/{app}/eval_sets/{set}/run_eval", EVALUATION),
    ("post", "/dev/apps/{app}/eval-sets/{set}/run", EVALUATION),
    ("post", "/dev/apps/{app}/eval_sets/{set}/add_session", EVALUATION),
    ("post", "/dev/apps/{app}/eval-sets/{set}/add-session", EVALUATION),
    ("put", "/dev/apps/{app}/eval_sets/{set}/evals/{case}", EVALUATION),
    ("delete", "/dev/apps/{app}/eval_sets/{set}/evals/{case}", EVALUATION),
    ("put", "/dev/apps/{app}/eval-sets/{set}/eval-cases/{case}", EVALUATION),
    ("delete", "/dev/apps/{app}/eval-sets/{set}/eval-cases/{case}", EVALUATION),
    ("get", "/dev/apps/{app}/deploy/defaults", DEPLOYMENT),
    ("post", "/dev/apps/{app}/deploy/agent_engine", DEPLOYMENT),
    ("post", "/dev/apps/{app}/deploy/cloud_run", DEPLOYMENT),
    ("post", "/dev/apps/{app}/deploy/gke", DEPLOYMENT),
];

fn add_unsupported(router: Router<ServerState>) -> Router<ServerState> {
    UNSUPPORTED.iter().fold(router, |router, &(method, path, reason)| {
        let filter = match method {
            "get" => MethodFilter::GET,
            "put" => MethodFilter::PUT,
            "delete" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        router.route(path, on(filter, async move || dev::unsupported(reason)))
    })
}
