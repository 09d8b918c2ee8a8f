//! Where ADK, the store, the providers and the tools meet: the adapters of the seeds, under the seeds' names.
//!
//! | read | for |
//! |---|---|
//! | [`agent`] | the one path by which every front end runs a turn |
//! | [`turns`] | one run at a time in each session, in the order of acceptance, across processes |
//! | [`service`], `turn_service`, `entries`, [`session`], [`events`], [`state`], `draft`, `task` | stored sessions as ADK's |
//! | [`archive`] | stored sessions and files as those outside look at them |
//! | [`runs`] | runs on tasks of their own, and their readers |
//! | [`row`] | an event as a row, and back |
//! | [`history`], [`budget`], [`cost`], [`tokens`] | what a model sees of the log |
//! | [`model`], [`messages`], [`options`], [`tool`], [`artifacts`] | models, tools and files as ADK's |
//! | [`guard`], `ledger` | whether a call may run, and that it has begun |
//! | [`collect`] | the text of a run |
//! | [`telemetry`] | what runs do, for those who look on from outside |
//!
//! **Invariant.** Every request that leaves is legal for its provider and within the budget, whatever the log holds; building it
//! needs no model call. An event is visible in the session object exactly when it is durable.

pub mod agent;
pub mod archive;
pub mod artifacts;
pub mod budget;
pub mod collect;
pub mod cost;
mod draft;
mod entries;
pub mod events;
mod facts;
pub mod guard;
pub mod history;
mod ids;
mod ledger;
pub mod messages;
pub mod model;
pub mod options;
mod recent;
pub mod row;
pub mod runs;
pub mod service;
pub mod session;
pub mod state;
mod task;
pub mod telemetry;
pub mod tokens;
pub mod tool;
mod turn_service;
pub mod turns;

pub use agent::{Agent, Bounds};
pub use archive::Archive;
pub use artifacts::ArtifactAdapter;
pub use budget::Budget;
pub use draft::restore as restore_draft;
pub use events::EventsAdapter;
pub use guard::Guard;
pub use ledger::begun_calls;
pub use model::ModelAdapter;
pub use runs::Runs;
pub use service::SessionServiceAdapter;
pub use session::SessionAdapter;
pub use state::StateAdapter;
pub use telemetry::Telemetry;
pub use tool::ToolAdapter;
pub use turns::Turns;
