//! The store's own time: it stamps rows and ends leases, and never orders anything inside a session.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch. A clock before 1970 reads as 0.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
