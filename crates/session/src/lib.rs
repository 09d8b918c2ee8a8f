//! The durable log: what was said in a session stays as it was said, in the order in which it was said.
//!
//! | read | for |
//! |---|---|
//! | [`message`] | one row of the log |
//! | [`store`] | sessions and the one way in which they change: [`Commit`] |
//! | [`lifecycle`] | the states of a run, and the pure function that admits its transitions |
//! | [`run`] | runs, their queue, leases, and taking over the runs of a dead owner |
//! | [`owner`] | which process works on a run, and whether it is alive |
//! | [`draft`] | text that was shown and is not in the log yet |
//! | [`log`] | reading a whole session or one run page by page, and the log of state changes |
//! | [`facts`] | what a reader of the tail must know about the part that it did not read |
//! | [`artifact`] | files that belong to a session or to a user, with their versions |
//! | [`import`] | conversations of Lango in Go, read from its database |
//! | [`memory`], [`sqlite`] | two backends; `testkit::store_suite` says what every backend must do |
//!
//! **Invariant.** A row that was acknowledged is never changed, reordered or lost; its sequence number is assigned
//! in the transaction that stores it. This crate knows nothing of agents, models or tools: it stores what it is given.

pub mod artifact;
mod clock;
pub mod draft;
mod error;
pub mod facts;
pub mod import;
mod key;
pub mod lifecycle;
pub mod log;
pub mod memory;
pub mod message;
pub mod owner;
pub mod run;
pub mod sqlite;
pub mod store;

pub use artifact::{Artifact, ArtifactKey, ArtifactStore, NewArtifact};
pub use draft::{Draft, Drafts};
pub use error::{Error, Result};
pub use facts::{Fact, FactChange};
pub use key::{Seq, SessionKey};
pub use lifecycle::RunStatus;
pub use log::{PageRequest, SessionLog, StateEntry};
pub use message::{Message, Stored, ToolCall};
pub use owner::{Heartbeat, Liveness, Owner, OwnerStatus, Owners};
pub use run::{
    Activity, GoneOwner, Lease, NewRun, OwnedRun, RequestKey, Run, RunLog, RunStore, TakeOver, TakenOver,
    TakenOverState, Withdrawal,
};
pub use store::{
    Commit, Committed, ListQuery, NewSession, OnConflict, Scope, SessionRow, SessionStore, Snapshot, Start,
    Started, StateChange, TailBudget, TurnChange,
};

use std::{future::Future, pin::Pin};

/// What a port returns: an answer that is under way. Dropping it abandons the answer, never half of a write.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A backend: everything that belongs to a session, in one place, so that one step commits as one.
pub trait Store: SessionStore + SessionLog + RunStore + RunLog + Owners + Drafts + ArtifactStore {}

impl<T: SessionStore + SessionLog + RunStore + RunLog + Owners + Drafts + ArtifactStore> Store for T {}
