//! One turn at a time for each session, first come first served, across tasks and processes.
//!
//! Those who come to one process go in one by one. A free session is entered at once. A busy one hands out tickets: they are
//! stored, so that a message whose sender died while it waited is still answered, by whoever comes next.

mod door;
mod keeper;
mod ticket;
mod turn;

pub(crate) use door::Passage;
pub(crate) use turn::{RunName, Turn};

use crate::{
    owner::{self, Owner},
    service::{service_error, store_key},
};
use adk::{error::ServiceError, session::SessionKey};
use door::{Door, Standing};
use keeper::Keeper;
use session::{NewRun, RunStatus, Store, Ticket};
use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use ticket::Held;
use tokio::time::Instant;

/// How often a waiting process looks whether another process has left.
const LOOK: Duration = Duration::from_millis(40);
/// How long a sender that may be alive may leave a free turn alone before it counts as gone; it looks every [`LOOK`].
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Queue {
    store: Arc<dyn Store>,
    /// Those at which somebody stands.
    doors: Arc<Mutex<HashMap<SessionKey, Weak<Door>>>>,
    keeper: Arc<Keeper>,
}

/// A turn that may begin.
pub(crate) enum Entry {
    Ours(Turn),
    /// A message whose sender is gone is first in the queue: it is answered before ours.
    LeftBehind(Turn, Ticket),
}

impl Queue {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, doors: Arc::default(), keeper: Arc::default() }
    }

    /// A place beside the door of a session, and not in its queue.
    pub(crate) fn place(&self, key: &SessionKey, name: RunName) -> Place {
        let desk = self.desk(key);
        Place { desk, key: key.clone(), name, standing: Standing::Aside, ticket: None, watched: None }
    }

    fn desk(&self, key: &SessionKey) -> Desk {
        Desk {
            store: Arc::clone(&self.store),
            key: store_key(key),
            owner: Arc::new(Owner::new()),
            door: self.door(key),
            keeper: Arc::clone(&self.keeper),
        }
    }

    /// The first message in a session's queue, if its sender is gone and nobody else has the turn.
    pub(crate) async fn left_behind(&self, key: &SessionKey) -> Result<Option<(Turn, Ticket)>, ServiceError> {
        let desk = self.desk(key);
        let found = async {
            let Some(first) = desk.first().await?.filter(|first| owner::is_dead(&first.owner)) else {
                return Ok(None);
            };
            let Some((turn, _)) = Turn::claim(&desk).await? else { return Ok(None) };
            if desk.first().await?.is_some_and(|now| now.number == first.number) {
                return Ok(Some((turn.taking(first.number), first)));
            }
            turn.leave().await;
            Ok(None)
        };
        found.await.map_err(|error| service_error(error, key))
    }

    fn door(&self, key: &SessionKey) -> Arc<Door> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(door) = doors.get(key).and_then(Weak::upgrade) {
            return door;
        }
        doors.retain(|_, door| door.strong_count() > 0);
        let door = Arc::new(Door::default());
        doors.insert(key.clone(), Arc::downgrade(&door));
        door
    }
}

/// What everything in the queue needs to be given back. The owner counts as alive until the last one is dropped.
#[derive(Clone)]
struct Desk {
    store: Arc<dyn Store>,
    key: session::SessionKey,
    owner: Arc<Owner>,
    door: Arc<Door>,
    keeper: Arc<Keeper>,
}

impl Desk {
    /// The first message in the queue.
    async fn first(&self) -> session::Result<Option<Ticket>> {
        Ok(self.store.waiting(&self.key, 1).await?.into_iter().next())
    }

    /// Runs to its end even if nobody waits for it: who is dropped while the store answers must not leave half of it behind.
    async fn whole<T: Send + 'static>(
        work: impl Future<Output = session::Result<T>> + Send + 'static,
    ) -> session::Result<T> {
        let done = tokio::spawn(work).await;
        done.unwrap_or_else(|lost| Err(session::Error::Backend(lost.into())))
    }

    /// As [`whole`](Self::whole), for those who cannot wait. Without a runtime nothing is done: the owner is dead then, and
    /// that says enough.
    fn afterwards(work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

/// A place in the queue. Dropping it withdraws the message.
pub(crate) struct Place {
    desk: Desk,
    key: SessionKey,
    name: RunName,
    standing: Standing,
    ticket: Option<Held>,
    watched: Option<Watched>,
}

/// A ticket before ours whose sender may or may not be alive.
struct Watched {
    number: u64,
    since: Instant,
    /// It was first and the turn was free, and still its sender did not take it.
    idle: bool,
}

impl Watched {
    fn new(ticket: &Ticket, idle: bool) -> Self {
        Self { number: ticket.number, since: Instant::now(), idle }
    }
}

impl Place {
    /// What the run is called that it is for.
    pub(crate) fn name(&self) -> &RunName {
        &self.name
    }

    /// The same place, for a run that was written down before and got no further.
    pub(crate) fn of_run(mut self, id: String) -> Self {
        self.name.id = id;
        self
    }

    /// In the line at the door: nobody who comes later is before it.
    pub(crate) fn in_line(mut self) -> Self {
        self.standing = self.desk.door.line_up();
        self
    }

    /// Waits until all who came before, in this process, are in the log or in the queue.
    pub(crate) async fn go_in(&mut self) {
        self.standing.go_in().await;
    }

    /// What is written down of a run with an idempotency key before anything happens. Its owner is alive as long as the place
    /// is there.
    pub(crate) fn registration(&self) -> Option<NewRun> {
        let is_named = self.name.idempotency_key.is_some();
        is_named.then(|| self.name.clone().into_new(&self.desk, RunStatus::Queued))
    }

    /// A turn that takes its lease with its first event, if nobody else in this process is at the door. Whether somebody is
    /// in another one shows then.
    pub(crate) fn at_once(&self) -> Option<Turn> {
        let is_alone = Arc::strong_count(&self.desk.door) == 1;
        is_alone.then(|| Turn::unclaimed(self.desk.clone(), self.standing.passage()))
    }

    /// Waits until this place, or one before it that nobody holds any more, is the first. `payload` is what is kept if this
    /// process dies while it waits.
    pub(crate) async fn enter(
        &mut self,
        payload: &(dyn Fn() -> String + Sync),
    ) -> Result<Entry, ServiceError> {
        loop {
            let door = Arc::clone(&self.desk.door);
            let opened = door.turns.notified();
            let entry = match self.ticket.as_ref().map(Held::number) {
                None => self.arrive(payload).await,
                Some(number) => self.look(number).await,
            };
            match entry {
                Ok(Some(entry)) => return Ok(entry),
                Ok(None) => {}
                // Who is in the queue loses nothing by waiting a little longer.
                Err(error) if error.is_transient() && self.ticket.is_some() => {}
                Err(error) => return Err(service_error(error, &self.key)),
            }
            // Another process makes no sound when it leaves: look again after a while.
            let _ = tokio::time::timeout(LOOK, opened).await;
        }
    }

    /// Waits until the session is free, whoever waits for it: what was cut off was before all of them.
    pub(crate) async fn go_on(&mut self) -> Result<Turn, ServiceError> {
        loop {
            let door = Arc::clone(&self.desk.door);
            let opened = door.turns.notified();
            let claimed = Turn::claim(&self.desk).await.map_err(|error| service_error(error, &self.key))?;
            if let Some((turn, _)) = claimed {
                return Ok(turn);
            }
            let _ = tokio::time::timeout(LOOK, opened).await;
        }
    }

    async fn arrive(&mut self, payload: &(dyn Fn() -> String + Sync)) -> session::Result<Option<Entry>> {
        let claimed = Turn::claim(&self.desk).await?;
        if let Some((turn, 0)) = claimed {
            self.standing.step_aside();
            return Ok(Some(Entry::Ours(turn)));
        }
        self.ticket = Some(Held::push(&self.desk, &self.name, payload()).await?);
        self.standing.step_aside();
        if let Some((turn, _)) = claimed {
            // Others came first.
            turn.leave().await;
        }
        Ok(None)
    }

    async fn look(&mut self, own: u64) -> session::Result<Option<Entry>> {
        // Numbers grow: if ours is not there, somebody took it.
        let first = self.desk.first().await?.filter(|first| first.number <= own);
        let first = first.ok_or_else(|| self.taken(own))?;
        if first.number != own && !self.may_be_gone(&first) {
            return Ok(None);
        }
        let Some((turn, _)) = Turn::claim(&self.desk).await? else {
            self.watched = Some(Watched::new(&first, false));
            return Ok(None);
        };
        if first.number == own {
            return Ok(Some(Entry::Ours(turn.taking(own))));
        }
        // Whoever had the turn until now may have taken the ticket.
        let is_still_first = self.desk.first().await?.is_some_and(|now| now.number == first.number);
        if is_still_first && self.is_gone(&first) {
            return Ok(Some(Entry::LeftBehind(turn.taking(first.number), first)));
        }
        self.watched = Some(Watched::new(&first, true));
        turn.leave().await;
        Ok(None)
    }

    fn taken(&self, number: u64) -> session::Error {
        session::Error::TicketGone { key: self.desk.key.clone(), number }
    }

    /// Whether it is time to find out.
    fn may_be_gone(&mut self, first: &Ticket) -> bool {
        if owner::is_dead(&first.owner) {
            return true;
        }
        match &self.watched {
            Some(watched) if watched.number == first.number => watched.since.elapsed() >= PATIENCE,
            Some(_) | None => {
                self.watched = Some(Watched::new(first, false));
                false
            }
        }
    }

    fn is_gone(&self, first: &Ticket) -> bool {
        let idle = |watched: &Watched| watched.idle && watched.number == first.number;
        owner::is_dead(&first.owner) || self.watched.as_ref().is_some_and(idle)
    }

    /// The message is in the log.
    pub(crate) fn served(mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
    }

    /// Gives the place up: the message will not be sent.
    pub(crate) async fn leave(mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.withdraw().await;
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
