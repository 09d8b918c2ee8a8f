//! The HTTP server: ADK's REST API, and runs that continue without their client.
//!
//! | module | contents |
//! |---|---|
//! | [`routes`] | every route |
//! | `handlers` | the handlers, by resource |
//! | [`app_registry`] | the port to the agents |
//! | [`access`] | the middleware of the routes: host check, authentication, limits |
//! | [`host_policy`], [`proxy`] | Host, Origin and CORS; forwarded headers of trusted proxies |
//! | [`auth`] | tokens, login links and JWTs |
//! | [`limits`], `concurrency`, [`tls`] | limits and the rate limiter; concurrent requests; certificates |
//! | [`connection`] | deadlines of slow clients, and the table of open connections |
//! | `memory_budget`, `body_budget`, `response_budget` | memory for request bodies and unread responses |
//! | `state_limit` | the limit of the state that clients store |
//! | `guarded_body` | guards that end with a response |
//! | [`principal`], `path_params`, `mount_path` | the sender of a request; path parameters; the prefix of a nested router |
//! | `input`, [`error`] | validation of bodies and queries, and errors, as in FastAPI |
//! | `session_json`, `run_json`, `sse` | sessions, lists of events and event streams as they are sent |
//! | `openapi` | `/openapi.json` and `/docs` |
//! | `instrument`, `metrics`, `readiness` | spans and log lines; `/metrics`; `/readyz` |
//! | `visible` | invisible characters in responses to web pages |
//! | [`state`], [`mod@serve`] | the state of the handlers; connections and shutdown |
//!
//! **Invariant.** A client that disconnects ends no run. Every request gets a response; none panics. The server makes no decision about
//! a conversation: it calls [`bridge`] with ADK's types.

pub mod access;
pub mod app_registry;
pub mod auth;
mod body_budget;
mod charged_reader;
mod concurrency;
pub mod connection;
pub mod error;
mod guarded_body;
mod handlers;
pub mod host_policy;
mod input;
mod instrument;
pub mod limits;
mod memory_budget;
mod metrics;
mod mount_path;
mod openapi;
mod path_params;
pub mod principal;
pub mod proxy;
mod readiness;
mod response_budget;
pub mod routes;
mod run_json;
pub mod serve;
mod session_json;
mod sse;
pub mod state;
mod state_limit;
pub mod tls;
mod visible;

pub use access::AccessControl;
pub use app_registry::{
    AppFault, AppFaultKind, AppLookupError, AppRegistry, AppsStatus, BrokenApp, ServedApp,
};
pub use instrument::LogSink;
pub use principal::Principal;
pub use routes::router;
pub use serve::{ServerListener, ShutdownSignal, serve};
pub use state::ServerState;
