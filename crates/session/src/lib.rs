//! The durable log: what was said in a session stays as it was said, in the order in which it was said.
//!
//! | read | for |
//! |---|---|
//! | [`message`] | one row of the log, in the shape that Lango has always had |
//! | [`store`] | sessions and the one way in which they change: [`Append`] |
//! | [`log`] | reading a whole session page by page, and what happened to its state |
//! | [`facts`] | what a reader of the tail must know about the part that it did not read |
//! | [`lease`] | who may run a session's turn, and for how long |
//! | [`inbox`] | messages that wait for their turn |
//! | [`run`] | what became of each request |
//! | [`artifact`] | files that belong to a session or to a user, with their versions |
//! | [`import`] | conversations of Lango in Go, read from its database |
//! | [`memory`], [`sqlite`] | two backends; `testkit::store_suite` says what every backend must do |
//!
//! **Invariant.** A row that was acknowledged is never changed, reordered or lost; its sequence number is assigned
//! in the transaction that stores it. This crate knows nothing of agents, models or tools: it stores what it is given.

pub mod artifact;
mod clock;
mod error;
pub mod facts;
pub mod import;
pub mod inbox;
mod key;
pub mod lease;
pub mod log;
pub mod memory;
pub mod message;
pub mod run;
pub mod sqlite;
pub mod store;

pub use artifact::{Artifact, ArtifactKey, ArtifactStore, NewArtifact};
pub use error::{Error, Result};
pub use facts::{Fact, FactChange};
pub use inbox::{Inbox, NewTicket, Ticket};
pub use key::{Seq, SessionKey};
pub use lease::{Claim, Claimed, Lease, Leases};
pub use log::{PageRequest, SessionLog, StateEntry};
pub use message::{Message, Stored, ToolCall};
pub use run::{NewRun, Run, RunLog, RunStatus, RunUpdate};
pub use store::{
    Append, Appended, Enter, Entered, ListQuery, NewSession, OnConflict, Scope, SessionRow, SessionStore,
    Snapshot, StateChange, TailBudget,
};

use std::{future::Future, pin::Pin};

/// What a port returns: an answer that is under way. Dropping it abandons the answer, never half of a write.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A backend: everything that belongs to a session, in one place, so that one step commits as one.
pub trait Store: SessionStore + SessionLog + Leases + Inbox + RunLog + ArtifactStore {}

impl<T: SessionStore + SessionLog + Leases + Inbox + RunLog + ArtifactStore> Store for T {}
