//! A ticket in the inbox that somebody waits with. Dropping it withdraws the message.

use super::{Desk, RunName, turn::mark_run};
use session::{NewTicket, RunStatus, Ticket};

pub(super) struct Held {
    desk: Desk,
    ticket: Ticket,
    settled: bool,
}

impl Held {
    /// A ticket has the name of the run that it will be.
    pub(super) async fn push(desk: &Desk, name: &RunName, payload: String) -> session::Result<Self> {
        let desk = desk.clone();
        let queued = name.clone().into_new(&desk, RunStatus::Queued);
        let new = NewTicket { id: queued.id.clone(), owner: queued.owner.clone(), payload };
        Desk::whole(async move {
            desk.store.start(queued).await?;
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
        withdraw(&self.desk, &self.ticket).await;
        self.settled = true;
    }
}

/// A ticket that cannot be withdrawn has a dead owner from now on, and is answered by whoever comes next. Its run, which has
/// its name, is over if nobody took it.
async fn withdraw(desk: &Desk, ticket: &Ticket) {
    if let Ok(true) = desk.store.withdraw(&desk.key, ticket.number).await {
        let _ = mark_run(desk, ticket.id.clone(), RunStatus::Cancelled).await;
    }
    desk.door.turns.notify_waiters();
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.settled {
            let (desk, ticket) = (self.desk.clone(), self.ticket.clone());
            Desk::afterwards(async move { withdraw(&desk, &ticket).await });
        }
    }
}
