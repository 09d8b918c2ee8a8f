//! Decisions as pure functions of the log: next step, contents, transfers, settling. [`runner`](crate::runner) executes them.

pub(crate) mod call;
pub mod contents;
mod foreign;
pub(crate) mod ids;
pub(crate) mod request;
pub(crate) mod settle;
pub mod spans;
pub mod step;
pub(crate) mod transfer;

pub use settle::{has_unknown_outcome, withdraw};
pub use transfer::is_unknown_agent;
