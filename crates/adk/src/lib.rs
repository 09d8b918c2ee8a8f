//! Google's Agent Development Kit (ADK) in Rust: the same terms, the same JSON, the same behaviour.
//!
//! | module | contents |
//! |---|---|
//! | [`content`], [`event`] | content, part, function call and response, event, actions: ADK's JSON |
//! | [`session`], [`state`] | ports to the session and artifact stores, log entries, state scopes |
//! | [`pending`] | pending work: open calls, questions to the user, deferred calls, the active agent |
//! | [`input`] | questions for input during a call, and their answers |
//! | [`agent`], [`instruction`] | the tree of agents, instruction templates |
//! | [`model`], [`tool`] | ports to language models and tools, requests and responses, the ledger |
//! | [`flow`] | decisions as pure functions: next step, contents of a request, transfer, settling, span attributes |
//! | [`window`] | the context window of an agent, whose front advances in strides |
//! | [`prefix`] | the contents with which an agent's requests begin, kept between requests |
//! | [`notes`] | texts that the runner writes into requests and into the log |
//! | [`runner`] | one turn, from a message to its last event |
//! | [`draft`] | emitted text of an answer that is not in the log yet, flush before exit |
//! | [`recipe`] | how the request of a model call was built, to rebuild it from the log |
//! | [`progress`] | progress of running calls |
//! | [`limits`] | limits of a run and its usage, detection of repeated calls |
//! | [`trace`] | spans, as in OpenTelemetry |
//! | [`error`] | errors of runs, models, stores and tools |
//!
//! **Invariants.** No I/O: this crate uses no network, no files and no database. An event is stored before it is emitted. A
//! turn that is dropped at any await leaves a log that the next turn can settle and continue.

pub mod agent;
pub mod content;
pub mod draft;
pub mod error;
pub mod event;
pub mod flow;
pub mod input;
pub mod instruction;
pub mod limits;
pub mod model;
pub mod notes;
pub mod pending;
pub mod prefix;
pub mod progress;
pub mod recipe;
pub mod runner;
pub mod session;
pub mod state;
pub mod tool;
pub mod trace;
mod turn;
pub mod window;
pub mod window_view;
