//! Imports conversations from a database of Lango in Go.
//!
//! | module | contents |
//! |---|---|
//! | `source` | the source database, opened read-only |
//! | `row` | conversion of one row |
//! | `time` | the time formats of Go's SQLite drivers |
//! | `target` | the session of the store that receives new rows |
//! | `report` | counts and anomalies |
//!
//! The caller copies batches from the source to the target and counts their tokens: this crate has no token counter.
//!
//! **Invariants.** The source file is never written. The import is idempotent: each message is imported once. Messages of a
//! session are imported in the order of time and number, without gaps, so an interrupted import is a prefix, and the next
//! import continues after it. Imported rows have no `meta`.

mod error;
mod report;
mod row;
mod source;
mod target;
mod time;

pub use error::ImportSourceError;
pub use report::{Anomaly, AnomalyCount, ImportCount, ImportReport};
pub use row::OldRow;
pub use source::{LangoDatabase, OldMessageRef, OldSession};
pub use target::{BulkCommit, ImportTarget};
