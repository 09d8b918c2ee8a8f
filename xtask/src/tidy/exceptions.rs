//! Exceptions from the size limits, each with a reason. An exception that is no longer needed is a problem.

pub(super) struct Exception {
    /// A file, or a trait in it: `crates/x/src/y.rs` or `crates/x/src/y.rs trait Z`.
    pub(super) place: &'static str,
    pub(super) limit: usize,
    pub(super) reason: &'static str,
}

pub(super) const EXCEPTIONS: &[Exception] = &[];
