//! The server: ADK's REST API, and runs that outlive those who asked for them.
//!
//! | read | for |
//! |---|---|
//! | [`routes`] | every route, in one table |
//! | `handlers` | what each of them does |
//! | [`app_registry`] | the port to the agents |
//! | [`access`] | what stands before every route |
//! | [`host_policy`], [`proxy`] | ConnectionHandler and Origin; what a proxy may say of a client |
//! | [`auth`] | who may come in |
//! | [`limits`], [`tls`] | how much one client may have; certificates |
//! | [`principal`], `path_params` | who asks, and for what |
//! | `input`, [`error`] | what clients send, and what is wrong with it, in FastAPI's words |
//! | `session_json`, `sse` | sessions and events as they leave |
//! | `openapi` | the API as it describes itself |
//! | `observe`, `readiness` | counts, a line for each request; whether the store works |
//! | [`state`], [`mod@serve`] | what the handlers work with; connections, and how they end |
//!
//! **Invariant.** A client that goes away ends nothing; whatever it asks, the answer is an answer and never a panic. The server
//! decides nothing about a conversation: it speaks to [`bridge`], in ADK's words.

pub mod access;
pub mod app_registry;
pub mod auth;
pub mod error;
mod handlers;
pub mod host_policy;
mod input;
pub mod limits;
mod observe;
mod openapi;
mod path_params;
pub mod principal;
pub mod proxy;
mod readiness;
pub mod routes;
pub mod serve;
mod session_json;
mod sse;
pub mod state;
pub mod tls;

pub use access::AccessControl;
pub use app_registry::{AppLookupError, AppRegistry, ServedApp};
pub use observe::LogSink;
pub use principal::Principal;
pub use routes::router;
pub use serve::{ServerListener, ShutdownSignal, serve};
pub use state::ServerState;
