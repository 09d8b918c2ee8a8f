//! Reading the sessions of a user completely: one read fixes which sessions the list has and their order, and pages of it are
//! loaded by number.
//!
//! So a list has every session that exists throughout and none twice, however long its reader takes, and no read transaction
//! is open between two pages. A session takes eight bytes meanwhile.

use crate::{Pending, SessionRow, StateChange};

/// A session with its own state.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHead {
    pub row: SessionRow,
    /// The state of the session scope, ordered by the first assignment of the key.
    pub state: Vec<StateChange>,
}

/// Some sessions of a user, and the state that they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadPage {
    /// The app and user state.
    pub shared: Vec<StateChange>,
    /// In the requested order, without sessions that were deleted.
    pub heads: Vec<SessionHead>,
}

pub trait SessionListing: Send + Sync {
    /// The [numbers](SessionRow::number) of a user's sessions in an app, the most recently changed first.
    fn session_numbers(&self, app: &str, user: &str) -> Pending<'_, Vec<u64>>;

    /// The sessions with these numbers. A session that cannot be read is [damaged](SessionRow::is_damaged).
    fn heads(&self, app: &str, user: &str, numbers: Vec<u64>) -> Pending<'_, HeadPage>;
}
