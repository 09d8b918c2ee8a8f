//! Messages that wait for their turn, in the order in which they came, across processes and restarts.

use crate::{Pending, SessionKey};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTicket {
    /// Unique in its session: pushing it again answers with the first ticket.
    pub id: String,
    /// Who will run it, if it lives until then.
    pub owner: String,
    /// The request, as JSON text of the bridge.
    pub payload: String,
}

/// A place in the queue. Numbers grow; the smallest is served first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub number: u64,
    pub id: String,
    pub owner: String,
    pub payload: String,
}

/// A ticket leaves the inbox by [`Append::takes`](crate::Append::takes), in the transaction that puts its message into the log,
/// or by being withdrawn.
pub trait Inbox: Send + Sync {
    /// Queues a message durably. The session must exist.
    fn push(&self, key: &SessionKey, ticket: NewTicket) -> Pending<'_, Ticket>;

    /// The tickets of a session, first come first; at most `limit`.
    fn waiting(&self, key: &SessionKey, limit: usize) -> Pending<'_, Vec<Ticket>>;

    /// Takes a ticket back. `false` if it was not there any more.
    fn withdraw(&self, key: &SessionKey, number: u64) -> Pending<'_, bool>;
}
