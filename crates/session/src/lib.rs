//! The durable session log: an append-only log of messages per session, with state, runs, leases and artifacts.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | a row of the log |
//! | [`store`] | sessions, and [`Commit`], the only way to change one |
//! | [`lifecycle`] | the states of a run, and the pure function that admits its transitions |
//! | [`run`] | runs, their queue and leases, and taking over the runs of a dead owner |
//! | [`owner`] | the processes that own runs, and their liveness |
//! | [`draft`] | streamed text that is not in the log yet |
//! | [`log`] | paged reads of a session, of a run, and of the state log |
//! | [`pending`] | pending work: state derived from the part of the log before the tail |
//! | [`recipe`] | how the request of a model call was built |
//! | [`artifact`] | versioned files of a session or a user |
//! | `import` (feature `import`) | imports databases of Lango in Go |
//! | [`memory`], [`sqlite`], [`postgres`] | the backends; `testkit::store_suite` tests what every backend must do |
//!
//! **Invariant.** An acknowledged row is never changed, reordered or lost; its sequence number is assigned in the transaction
//! that stores it. This crate does not depend on agents, models or tools, and does not interpret the text that it stores.

pub mod artifact;
mod clock;
pub mod draft;
mod error;
mod health;
#[cfg(feature = "import")]
pub mod import;
mod key;
pub mod lifecycle;
pub mod log;
pub mod memory;
pub mod message;
pub mod owner;
pub mod pending;
pub mod postgres;
pub mod recipe;
pub mod run;
pub mod sqlite;
pub mod store;

pub use artifact::{Artifact, ArtifactKey, ArtifactStore, NewArtifact};
pub use draft::{Draft, Drafts};
pub use error::{Error, Result};
pub use health::Reporter;
pub use key::{Seq, SessionKey};
pub use lifecycle::RunStatus;
pub use log::{PageRequest, SessionLog, StateEntry};
pub use message::{SessionMessage, StoredMessage, ToolCall};
pub use owner::{Heartbeat, Liveness, OwnerClaim, OwnerStatus, Owners};
pub use pending::{PendingEntry, PendingEntryChange};
pub use recipe::{NewRecipe, RecipeQuery, RecipeText, Recipes, StoredRecipe};
pub use run::{
    Activity, GoneOwner, IdempotencyKey, Lease, NewRun, OwnedRun, RunLog, RunRecord, RunStore, TakeOver,
    TakenOver, TakenOverState, Withdrawal,
};
pub use store::{
    Commit, Committed, ListQuery, NewSession, OnConflict, Scope, SessionRow, SessionStore, SettledMessage,
    Snapshot, Start, StartedTurn, StateChange, TailBudget, TurnChange,
};

use std::{future::Future, pin::Pin};

/// The future of a store call. Dropping it never leaves a write half done: the write is stored completely or not at all.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A backend. One store holds everything that belongs to a session, so that a commit is one transaction.
pub trait Store:
    SessionStore + SessionLog + RunStore + RunLog + Owners + Drafts + ArtifactStore + Recipes
{
}

impl<T: SessionStore + SessionLog + RunStore + RunLog + Owners + Drafts + ArtifactStore + Recipes> Store
    for T
{
}
