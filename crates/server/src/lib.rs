//! The server: ADK's REST API, and runs that outlive those who asked for them.
//!
//! | read | for |
//! |---|---|
//! | [`routes`] | every route, in one table |
//! | `handlers` | what each of them does |
//! | [`apps`] | the port to the agents |
//! | [`access`] | what stands before every route |
//! | [`guard`], [`proxy`] | Host and Origin; what a proxy may say of a client |
//! | [`auth`] | who may come in |
//! | [`limits`], [`tls`] | how much one client may have; certificates |
//! | [`principal`], `params` | who asks, and for what |
//! | `input`, [`error`] | what clients send, and what is wrong with it, in FastAPI's words |
//! | `session_json`, `sse` | sessions and events as they leave |
//! | `openapi` | the API as it describes itself |
//! | `observe`, `ready` | counts, a line for each request; whether the store works |
//! | [`state`], [`mod@serve`] | what the handlers work with; connections, and how they end |
//!
//! **Invariant.** A client that goes away ends nothing; whatever it asks, the answer is an answer and never a panic. The server
//! decides nothing about a conversation: it speaks to [`bridge`], in ADK's words.

pub mod access;
pub mod apps;
pub mod auth;
pub mod error;
pub mod guard;
mod handlers;
mod input;
pub mod limits;
mod observe;
mod openapi;
mod params;
pub mod principal;
pub mod proxy;
mod ready;
pub mod routes;
pub mod serve;
mod session_json;
mod sse;
pub mod state;
pub mod tls;

pub use access::Access;
pub use apps::{App, AppError, Apps};
pub use observe::LogLine;
pub use principal::Principal;
pub use routes::router;
pub use serve::{Door, Stop, serve};
pub use state::Server;
