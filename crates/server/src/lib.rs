//! The server: ADK's REST API, and runs that outlive those who asked for them.
//!
//! | read | for |
//! |---|---|
//! | [`routes`] | every route, in one table |
//! | [`state`], [`apps`] | what the handlers work with; the port to the agents |
//! | [`principal`] | who asks |
//! | [`error`] | FastAPI's shapes of what is wrong |
//! | [`serve`] | connections, and how they end |
//!
//! **Invariant.** A client that goes away ends nothing; whatever it asks, the answer is an answer and never a panic. The server
//! decides nothing about a conversation: it speaks to [`bridge`], in ADK's words.

pub mod apps;
pub mod error;
pub mod principal;
pub mod routes;
pub mod serve;
pub mod state;

pub use apps::{App, AppError, Apps};
pub use principal::Principal;
pub use routes::router;
pub use serve::{Stop, serve};
pub use state::Server;
