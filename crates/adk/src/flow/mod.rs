//! From the log to the next step: what to do is decided here, by pure functions; [`runner`](crate::runner) does it.

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
