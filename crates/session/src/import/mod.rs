//! Conversations of Lango in Go, read from its database and added to a store.
//!
//! | read | for |
//! |---|---|
//! | `source` | the file: opened for reading only, its sessions in the order in which they were last used |
//! | `row` | one of its rows in our shape, whatever the row holds |
//! | `time` | times as Go's SQLite drivers write them |
//! | `target` | a session of the store that takes what is new |
//! | `report` | what came, what was there, what was odd |
//!
//! The caller walks from the one to the other, batch by batch, and counts tokens on the way: this crate cannot.
//!
//! **Invariants.** The file is never written. A message that came once does not come again, and a second import changes
//! nothing that the first one made. Messages of a session enter in the order of their time and number, without a hole: an import
//! that ends early has brought a beginning, and the next one goes on behind it. Rows come without `meta`: their columns are all
//! that is known of them.

mod error;
mod report;
mod row;
mod source;
mod target;
mod time;

pub use error::SourceError;
pub use report::{Count, Oddity, Report, Seen};
pub use row::OldRow;
pub use source::{OldSession, Place, Source};
pub use target::{Bulk, Target};

pub(crate) use source::is_lango;
