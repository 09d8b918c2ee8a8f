//! Fail points: named points of a turn where a test aborts the process, makes a call fail, or delays it.
//!
//! | module | contents |
//! |---|---|
//! | [`Point`] | the points, and the faults that can be injected there |
//! | [`reach`], [`hit`], [`pass`], [`around`] | the calls in product code |
//! | `plan` (feature `enabled`) | arming points, and counting hits |
//!
//! Without the feature `enabled` all calls are empty, [`InjectedFault`] has no value, and nothing of this crate is in the binary.
//!
//! **Why not the crate `fail`.** It cannot abort the process, a pause blocks the runtime worker, an action cannot be bound to
//! the n-th hit of one point, and it adds `rand`, `log` and `once_cell` to the dependencies of the product.
//!
//! **Invariant.** The state is global: a test that arms a point must run in a separate process.

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
