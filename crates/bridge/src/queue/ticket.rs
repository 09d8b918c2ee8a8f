//! A ticket in the inbox that somebody waits with. Dropping it withdraws the message.

use super::Desk;
use session::{NewTicket, Ticket};

pub(super) struct Held {
    desk: Desk,
    ticket: Ticket,
    settled: bool,
}

impl Held {
    pub(super) async fn push(desk: &Desk, new: NewTicket) -> session::Result<Self> {
        let desk = desk.clone();
        Desk::whole(async move {
            let ticket = desk.store.push(&desk.key, new).await?;
            Ok(Self { desk, ticket, settled: false })
        })
        .await
    }

    pub(super) fn number(&self) -> u64 {
        self.ticket.number
    }

    /// It is no longer in the inbox.
    pub(super) fn forget(mut self) {
        self.settled = true;
    }

    pub(super) async fn withdraw(mut self) {
        withdraw(&self.desk, self.ticket.number).await;
        self.settled = true;
    }
}

/// A ticket that cannot be withdrawn has a dead owner from now on, and is answered by whoever comes next.
async fn withdraw(desk: &Desk, number: u64) {
    let _ = desk.store.withdraw(&desk.key, number).await;
    desk.door.notify_waiters();
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.settled {
            let (desk, number) = (self.desk.clone(), self.ticket.number);
            Desk::afterwards(async move { withdraw(&desk, number).await });
        }
    }
}
