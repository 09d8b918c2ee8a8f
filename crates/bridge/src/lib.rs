//! The adapters between ADK's runner, the session store, the providers and the tools.
//!
//! | module | contents |
//! |---|---|
//! | [`agent`] | the single path by which every front end runs a turn |
//! | [`turns`] | turn ownership: one run at a time per session, in order of acceptance, across processes |
//! | [`store`] | adapters for the session store: session service, events, state, rows, ledger, drafts |
//! | [`view`] | the part of the log that a request shows: window, repair, fit, token budget |
//! | [`memory`] | recall of earlier conversations, and ADK's memory service |
//! | [`model`] | adapters for models: attempts, retries, fallbacks |
//! | [`tools`] | adapters for tools, and the guard that decides on calls |
//! | [`runs`] | runs on their own tasks, their readers, and recovery |
//!
//! **Invariant.** Every request is legal for its provider and within the budget, whatever the log holds; building it needs no
//! model call. An event is visible in the session object exactly when it is durable.

pub mod agent;
mod digest;
pub mod memory;
pub mod model;
pub mod runs;
pub mod store;
pub mod tools;
pub mod turns;
pub mod view;

pub use self::tools::{
    guard::Guard,
    hint::ApprovalHint,
    mode::ModeSwitch,
    tool::{MCP_SERVER, ToolAdapter},
};
pub use agent::{Agent, Bounds, references::References};
pub use memory::{LazyMemory, Memory, keep_indexed};
pub use model::ModelAdapter;
pub use runs::Runs;
pub use store::{
    archive::Archive, artifacts::ArtifactAdapter, draft::restore as restore_draft, events::EventsAdapter,
    ledger::begun_calls, service::SessionServiceAdapter, session::SessionAdapter, state::StateAdapter,
};
pub use turns::Turns;
pub use view::budget::Budget;
