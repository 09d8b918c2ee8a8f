//! The server: ADK's REST API, and runs that outlive those who asked for them.
//!
//! | read | for |
//! |---|---|
//! | [`routes`] | every route, in one table |
//! | `handlers` | what each of them does |
//! | [`apps`] | the port to the agents |
//! | [`principal`], `params` | who asks, and for what |
//! | `input`, [`error`] | what clients send, and what is wrong with it, in FastAPI's words |
//! | `session_json`, `sse` | sessions and events as they leave |
//! | `observe` | readiness, counts, a line for each request |
//! | [`state`], [`serve`] | what the handlers work with; connections, and how they end |
//!
//! **Invariant.** A client that goes away ends nothing; whatever it asks, the answer is an answer and never a panic. The server
//! decides nothing about a conversation: it speaks to [`bridge`], in ADK's words.

pub mod apps;
pub mod error;
mod handlers;
mod input;
mod observe;
mod params;
pub mod principal;
pub mod routes;
pub mod serve;
mod session_json;
mod sse;
pub mod state;

pub use apps::{App, AppError, Apps};
pub use observe::LogLine;
pub use principal::Principal;
pub use routes::router;
pub use serve::{Stop, serve};
pub use state::Server;
