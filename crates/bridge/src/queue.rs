//! One turn at a time for each session, first come first served, across tasks and processes.
//!
//! A free session is entered at once. A busy one hands out tickets: they are stored, so that a message whose sender died
//! while it waited is still answered, by whoever comes next.

use crate::{
    owner,
    service::{TurnMark, service_error, store_key},
};
use adk::{error::ServiceError, session::SessionKey};
use session::{Claim, Claimed, Lease, NewTicket, Store, Ticket};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a lease lasts without being renewed. It matters only for owners on other machines.
const LEASE: Duration = Duration::from_secs(30);
/// How often a waiting process looks whether another process has left.
const LOOK: Duration = Duration::from_millis(40);

#[derive(Clone)]
pub(crate) struct Queue {
    store: Arc<dyn Store>,
    /// Wakes those who wait in this process when a turn ends in it.
    doors: Arc<Mutex<HashMap<SessionKey, Weak<Notify>>>>,
}

/// A turn that may begin.
pub(crate) enum Entry {
    Ours(Turn),
    /// A message whose sender is gone is first in the queue: it is answered before ours.
    LeftBehind(Turn, Ticket),
}

/// The right to run a turn. Leaving it, or dropping it, lets the next one in.
pub(crate) struct Turn {
    lease: Lease,
    queue: Queue,
    takes: Option<u64>,
    door: Arc<Notify>,
    /// Ends the task that renews the lease.
    _renewal: DropGuard,
    left: bool,
}

impl Queue {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, doors: Arc::default() }
    }

    /// Takes a place in the queue of a session; `payload` is what is kept if this process dies while it waits.
    pub(crate) fn place(&self, key: &SessionKey, payload: String) -> Place {
        Place {
            queue: self.clone(),
            key: key.clone(),
            owner: owner::claim(),
            payload,
            ticket: None,
            door: self.door(key),
        }
    }

    fn door(&self, key: &SessionKey) -> Arc<Notify> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.retain(|_, door| door.strong_count() > 0);
        if let Some(door) = doors.get(key).and_then(Weak::upgrade) {
            return door;
        }
        let door = Arc::new(Notify::new());
        doors.insert(key.clone(), Arc::downgrade(&door));
        door
    }
}

/// A place in the queue.
pub(crate) struct Place {
    queue: Queue,
    key: SessionKey,
    owner: String,
    payload: String,
    ticket: Option<Ticket>,
    door: Arc<Notify>,
}

impl Place {
    /// Waits until this place, or one before it that nobody holds any more, is the first. `lost` is cancelled if the lease is
    /// taken away during the turn.
    pub(crate) async fn enter(&mut self, lost: &CancellationToken) -> Result<Entry, ServiceError> {
        loop {
            let door = Arc::clone(&self.door);
            let opened = door.notified();
            if let Some(entry) = self.try_enter(lost).await? {
                return Ok(entry);
            }
            // Another process makes no sound when it leaves: look again after a while.
            let _ = tokio::time::timeout(LOOK, opened).await;
        }
    }

    async fn try_enter(&mut self, lost: &CancellationToken) -> Result<Option<Entry>, ServiceError> {
        let first = match &self.ticket {
            None => None,
            Some(_) => self.waiting().await?.into_iter().next(),
        };
        let mine = match (&self.ticket, &first) {
            (Some(own), Some(first)) => own.number == first.number,
            (Some(_), None) => return Err(ServiceError::Stale(self.key.clone())),
            (None, _) => true,
        };
        if !mine && !first.as_ref().is_some_and(|first| owner::is_dead(&first.owner)) {
            return Ok(None);
        }
        let Some((lease, waiting)) = self.claim().await? else {
            self.take_ticket().await?;
            return Ok(None);
        };
        if self.ticket.is_none() && waiting > 0 {
            // Others came first. Their turn must not wait for our ticket.
            self.take_ticket().await?;
            let released = self.queue.store.release(&lease).await;
            released.map_err(|error| service_error(error, &self.key))?;
            return Ok(None);
        }
        let turn = self.turn(lease, first.as_ref().map(|ticket| ticket.number), lost);
        Ok(Some(match first {
            Some(first) if !mine => Entry::LeftBehind(turn, first),
            Some(_) | None => Entry::Ours(turn),
        }))
    }

    async fn waiting(&self) -> Result<Vec<Ticket>, ServiceError> {
        let waiting = self.queue.store.waiting(&store_key(&self.key), 1).await;
        waiting.map_err(|error| service_error(error, &self.key))
    }

    /// The lease and how many wait, or `None` while somebody alive has it.
    async fn claim(&self) -> Result<Option<(Lease, usize)>, ServiceError> {
        let mut displaces = None;
        loop {
            let claim = Claim { owner: self.owner.clone(), ttl: LEASE, displaces };
            let claimed = self.queue.store.claim(&store_key(&self.key), claim).await;
            match claimed.map_err(|error| service_error(error, &self.key))? {
                Claimed::Granted { lease, waiting } => return Ok(Some((lease, waiting))),
                Claimed::Held { owner, epoch } if displaces != Some(epoch) && owner::is_dead(&owner) => {
                    displaces = Some(epoch);
                }
                Claimed::Held { .. } => return Ok(None),
            }
        }
    }

    async fn take_ticket(&mut self) -> Result<(), ServiceError> {
        if self.ticket.is_some() {
            return Ok(());
        }
        let new = NewTicket {
            id: uuid::Uuid::new_v4().to_string(),
            owner: self.owner.clone(),
            payload: self.payload.clone(),
        };
        let ticket = self.queue.store.push(&store_key(&self.key), new).await;
        self.ticket = Some(ticket.map_err(|error| service_error(error, &self.key))?);
        Ok(())
    }

    fn turn(&self, lease: Lease, takes: Option<u64>, lost: &CancellationToken) -> Turn {
        let ended = CancellationToken::new();
        tokio::spawn(renew(Arc::clone(&self.queue.store), lease.clone(), ended.clone(), lost.clone()));
        let door = Arc::clone(&self.door);
        Turn { lease, queue: self.queue.clone(), takes, door, _renewal: ended.drop_guard(), left: false }
    }

    /// Gives the place up: the message will not be sent.
    pub(crate) async fn leave(self) -> Result<(), ServiceError> {
        if let Some(ticket) = self.ticket {
            let withdrawn = self.queue.store.withdraw(&store_key(&self.key), ticket.number).await;
            withdrawn.map_err(|error| service_error(error, &self.key))?;
            self.door.notify_waiters();
        }
        Ok(())
    }
}

async fn renew(store: Arc<dyn Store>, lease: Lease, ended: CancellationToken, lost: CancellationToken) {
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = tokio::time::sleep(LEASE / 3) => {}
        }
        if let Err(session::Error::Fenced(_)) = store.renew(&lease, LEASE).await {
            lost.cancel();
            return;
        }
    }
}

impl Turn {
    pub(crate) fn mark(&self, run: String) -> TurnMark {
        TurnMark { epoch: Some(self.lease.epoch), run: Some(run), takes: self.takes }
    }

    pub(crate) fn owner(&self) -> &str {
        &self.lease.owner
    }

    /// Lets the next one in, and says so.
    pub(crate) async fn leave(mut self) {
        self.left = true;
        // A lease that cannot be given back runs out; nothing depends on it.
        let _ = self.queue.store.release(&self.lease).await;
        self.door.notify_waiters();
    }
}

impl Drop for Turn {
    /// A turn that was dropped in the middle must not hold up the next.
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (store, lease, door) =
            (Arc::clone(&self.queue.store), self.lease.clone(), Arc::clone(&self.door));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = store.release(&lease).await;
                door.notify_waiters();
            });
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
