//! An event as a row, and back: `restore(save(e)) == e` for every event that the runner can make.
//!
//! The columns are the seeds' own, so that a row without `meta` restores too; `meta` says the rest: the frame of the event and,
//! where the columns do not give it away, the layout of its parts.

mod legacy;
mod meta;
mod restore;
mod save;

pub(crate) use legacy::LegacyKind;
pub use restore::{DEFAULT_AGENT, Restorer};
pub use save::save;
