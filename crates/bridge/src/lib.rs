//! The adapters between ADK's runner, the session store, the providers and the tools.
//!
//! | read | for |
//! |---|---|
//! | [`agent`] | the one path by which every front end runs a turn |
//! | [`turns`] | turn ownership: one run at a time in each session, in the order of acceptance, across processes |
//! | [`store`] | stored sessions as ADK's: session service, events, state, rows, ledger, drafts |
//! | [`view`] | what a model is shown of the log: window, repair, fit, token budget |
//! | [`model`] | models as ADK's: attempts, retries, fallback |
//! | [`tools`] | tools as ADK's, and the guard in front of them |
//! | [`runs`] | runs on tasks of their own, their readers, and recovery |
//!
//! **Invariant.** Every request that leaves is legal for its provider and within the budget, whatever the log holds; building it
//! needs no model call. An event is visible in the session object exactly when it is durable.

pub mod agent;
pub mod model;
pub mod runs;
pub mod store;
pub mod tools;
pub mod turns;
pub mod view;

pub use self::tools::{guard::Guard, tool::ToolAdapter};
pub use agent::{Agent, Bounds};
pub use model::ModelAdapter;
pub use runs::Runs;
pub use store::{
    archive::Archive, artifacts::ArtifactAdapter, draft::restore as restore_draft, events::EventsAdapter,
    ledger::begun_calls, service::SessionServiceAdapter, session::SessionAdapter, state::StateAdapter,
};
pub use turns::Turns;
pub use view::budget::Budget;
