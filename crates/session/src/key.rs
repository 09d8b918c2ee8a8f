//! Session keys and sequence numbers.

use std::fmt;

pub use session_key::SessionKey;

/// The sequence number of a row or a state change in its session. The first is 1; 0 means "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

impl Seq {
    pub const START: Self = Self(0);

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
