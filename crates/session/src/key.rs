//! Session keys and sequence numbers.

use std::fmt;

/// The key of a session. Session ids are unique per app and user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub app: String,
    pub user: String,
    pub session: String,
}

impl SessionKey {
    pub fn new(app: impl Into<String>, user: impl Into<String>, session: impl Into<String>) -> Self {
        Self { app: app.into(), user: user.into(), session: session.into() }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.app, self.user, self.session)
    }
}

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
