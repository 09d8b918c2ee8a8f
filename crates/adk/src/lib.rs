//! Google's Agent Development Kit in Rust: the same words, the same JSON, the same behaviour.
//!
//! | read | for |
//! |---|---|
//! | [`content`], [`event`] | what is said and done, in ADK's JSON |
//! | [`state`], [`session`], [`pending`] | what a session is, and what of its past the next step depends on |
//! | [`model`], [`tool`], [`agent`] | the ports to models and tools, and the tree of agents |
//! | [`flow`] | deciding: the next step, the contents of a request, the answers to calls |
//! | [`draft`] | the text of an answer that was shown and is not in the log yet |
//! | [`progress`] | what a call says while it runs |
//! | [`limits`] | what a run may use |
//! | [`trace`] | what happened, for whoever looks on from outside |
//! | [`runner`] | doing: one turn, from a message to its last event |
//!
//! **Invariant.** No I/O: this crate knows no network, no file and no database. An event is stored before it is shown,
//! and a turn that is dropped at any await leaves a log from which the next turn can go on.

pub mod agent;
pub mod content;
pub mod draft;
pub mod error;
pub mod event;
pub mod flow;
pub mod instruction;
pub mod limits;
pub mod model;
pub mod pending;
pub mod progress;
pub mod runner;
pub mod session;
pub mod state;
pub mod tool;
pub mod trace;
mod turn;
