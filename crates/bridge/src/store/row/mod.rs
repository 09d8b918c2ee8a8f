//! Converts an event to a row, and back: `restore(save(e)) == e` for every event that the runner can make.
//!
//! The columns are those of the original table, so that old rows without `meta` are restored too. `meta` holds the
//! rest: the frame of the event and, unless the columns determine it, the layout of its parts.

mod legacy;
mod meta;
mod restore;
mod save;

pub(crate) use legacy::LegacyKind;
pub use restore::{DEFAULT_AGENT, Restorer};
pub use save::save;
