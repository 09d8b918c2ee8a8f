//! Fail points: named places of a turn at which a test aborts the process, makes a call fail, or delays it.
//!
//! | read | for |
//! |---|---|
//! | [`Point`] | the places, and which faults can happen there |
//! | [`reach`], [`hit`], [`pass`], [`around`] | what product code calls |
//! | `plan` (feature `enabled`) | what a test arms, and how often each place was reached |
//!
//! Without the feature `enabled` all calls are empty, [`InjectedFault`] has no value, and nothing of this crate is in the binary.
//!
//! **Why not the crate `fail`.** It has no action that aborts the process, a pause blocks the worker of the runtime, an
//! action cannot be bound to the n-th hit of one point alone, and it brings `rand`, `log` and `once_cell` into the tree of
//! the product.
//!
//! **Invariant.** The state is per process: a test that arms a point has the process to itself.

mod point;

#[cfg(not(feature = "enabled"))]
mod inert;
#[cfg(feature = "enabled")]
mod plan;

#[cfg(not(feature = "enabled"))]
pub use inert::{InjectedFault, around, hit, pass, pass_blocking, reach};
#[cfg(feature = "enabled")]
pub use plan::{
    FailAction, FailPlan, InjectedFault, arm, around, fired, hit, hits, pass, pass_blocking, reach,
};
pub use point::Point;
#[cfg(feature = "enabled")]
pub use point::{Site, UnknownPoint};
