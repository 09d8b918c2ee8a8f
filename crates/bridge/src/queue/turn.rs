//! The right to run a turn: a lease, kept while the turn lasts and given back however it ends.

use super::{
    Desk, Passage,
    keeper::{Keeping, Watched},
};
use crate::{owner, service::TurnMark};
use session::{Append, Claim, Claimed, Enter, Lease, NewRun, RunStatus, RunUpdate};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// How long a lease lasts without being renewed. It matters only for owners on other machines.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// What a run is called.
#[derive(Clone, Debug)]
pub(crate) struct RunName {
    pub(crate) id: String,
    /// A repeated request with this key is the same run.
    pub(crate) idempotency_key: Option<String>,
}

impl RunName {
    pub(crate) fn fresh() -> Self {
        Self { id: uuid::Uuid::new_v4().to_string(), idempotency_key: None }
    }

    pub(super) fn into_new(self, desk: &Desk, status: RunStatus) -> NewRun {
        NewRun {
            id: self.id,
            key: desk.key.clone(),
            status,
            idempotency_key: self.idempotency_key,
            owner: desk.owner.name().to_owned(),
        }
    }
}

/// Leaving it, or dropping it, lets the next one in.
pub(crate) struct Turn {
    desk: Desk,
    /// What its events carry; the lease's epoch among it, once there is one.
    mark: Arc<Mutex<TurnMark>>,
    /// Its own ticket, or the one that it answers.
    takes: Option<u64>,
    /// Who had the turn before and died in it.
    displaced: Option<String>,
    run: Option<String>,
    /// The lease is no longer ours, but nobody has been told.
    given_back: bool,
    /// The lease is renewed as long as this is here.
    keeping: Option<Keeping>,
    left: bool,
}

impl Turn {
    /// The turn and how many wait for it, or `None` while somebody alive has it.
    pub(super) async fn claim(desk: &Desk) -> session::Result<Option<(Self, usize)>> {
        let desk = desk.clone();
        Desk::whole(async move {
            let mut displaced: Option<(String, u64)> = None;
            loop {
                let displaces = displaced.as_ref().map(|(_, epoch)| *epoch);
                let claim = Claim { owner: desk.owner.name().to_owned(), ttl: LEASE, displaces };
                match desk.store.claim(&desk.key, claim).await? {
                    Claimed::Granted { lease, waiting } => {
                        let displaced = displaced.map(|(owner, _)| owner);
                        let mark = TurnMark { epoch: Some(lease.epoch), ..TurnMark::default() };
                        return Ok(Some((Self::new(desk, mark, displaced), waiting)));
                    }
                    Claimed::Held { owner, epoch } if displaces != Some(epoch) && owner::is_dead(&owner) => {
                        displaced = Some((owner, epoch));
                    }
                    Claimed::Held { .. } => return Ok(None),
                }
            }
        })
        .await
    }

    /// A turn whose first event claims it.
    pub(super) fn unclaimed(desk: Desk, passage: Option<Passage>) -> Self {
        let enters = Some(Enter { owner: desk.owner.name().to_owned(), ttl: LEASE, follows: None });
        Self::new(desk, TurnMark { enters, passage, ..TurnMark::default() }, None)
    }

    fn new(desk: Desk, mark: TurnMark, displaced: Option<String>) -> Self {
        Self {
            desk,
            mark: Arc::new(Mutex::new(mark)),
            takes: None,
            displaced,
            run: None,
            given_back: false,
            keeping: None,
            left: false,
        }
    }

    /// Whether nothing of it is stored yet, not even that it is ours.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.mark().epoch.is_none()
    }

    fn mark(&self) -> MutexGuard<'_, TurnMark> {
        read(&self.mark)
    }

    fn lease(&self) -> Option<Lease> {
        self.desk.lease(&self.mark)
    }

    pub(super) fn taking(mut self, number: u64) -> Self {
        self.takes = Some(number);
        self
    }

    /// Keeps the turn, which its first event will write down as running. `lost` is cancelled if it is taken away.
    pub(crate) async fn begin(
        &mut self,
        name: RunName,
        lost: CancellationToken,
    ) -> session::Result<Arc<Mutex<TurnMark>>> {
        if let Some(dead) = self.displaced.take() {
            interrupt_runs_of(&self.desk, &dead, &name.id).await?;
        }
        let run = name.id.clone();
        self.run = Some(run.clone());
        let started = name.into_new(&self.desk, RunStatus::Running);
        {
            let mut mark = self.mark();
            (mark.starts, mark.run, mark.takes) = (Some(started), Some(run), self.takes);
        }
        let mark = Arc::clone(&self.mark);
        let watched = Watched { desk: self.desk.clone(), mark: Arc::clone(&mark), lost };
        self.keeping = Some(self.desk.keeper.keep(watched));
        Ok(mark)
    }

    /// Writes down how the run ended, if its last event did not.
    pub(crate) async fn end_run(&mut self, status: RunStatus, error: Option<String>) {
        // One with a key that has not begun here may have begun elsewhere.
        let may_be_anothers = self.mark().starts.as_ref().is_some_and(|new| new.idempotency_key.is_some());
        if let Some(id) = self.run.take().filter(|_| !self.is_unclaimed() && !may_be_anothers) {
            let run = Some(RunUpdate { id, status, error });
            // The run's own error is the one to report.
            let _ = self.desk.store.append(&self.desk.key, Append { run, ..Append::default() }).await;
        }
    }

    /// The last event has told how the run ended, and has given the lease back.
    pub(crate) fn has_ended(&mut self) {
        self.run = None;
        self.given_back = true;
    }

    /// Takes the turn's ticket out of the queue although its message is not in the log.
    pub(crate) async fn drop_ticket(&self) {
        if let Some(number) = self.takes {
            let _ = self.desk.store.withdraw(&self.desk.key, number).await;
        }
    }

    /// Lets the next one in, and says so.
    pub(crate) async fn leave(mut self) {
        if let Some(lease) = self.lease().filter(|_| !self.given_back) {
            release(&self.desk, &lease).await;
        }
        self.left = true;
        self.desk.door.turns.notify_waiters();
    }
}

fn read(mark: &Mutex<TurnMark>) -> MutexGuard<'_, TurnMark> {
    mark.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(super) fn lease(&self, mark: &Mutex<TurnMark>) -> Option<Lease> {
        let epoch = read(mark).epoch?;
        Some(Lease { key: self.key.clone(), owner: self.owner.name().to_owned(), epoch })
    }

    /// The lease to give back. An event that was on its way when its turn was dropped may have taken one.
    async fn own_lease(&self, known: Option<Lease>) -> Option<Lease> {
        if known.is_some() {
            return known;
        }
        let claim = Claim { owner: self.owner.name().to_owned(), ttl: LEASE, displaces: None };
        match self.store.claim(&self.key, claim).await {
            Ok(Claimed::Granted { lease, .. }) => Some(lease),
            Ok(Claimed::Held { .. }) | Err(_) => None,
        }
    }
}

/// A lease that cannot be given back has a dead owner from now on.
async fn release(desk: &Desk, lease: &Lease) {
    let _ = desk.store.release(lease).await;
}

/// The runs of an owner that died in the middle of them, but for the one that goes on.
async fn interrupt_runs_of(desk: &Desk, owner: &str, but: &str) -> session::Result<()> {
    let newest = desk.store.runs(&desk.key, 8).await?;
    let is_cut = |run: &session::Run| run.owner == owner && run.status == RunStatus::Running && run.id != but;
    for run in newest.into_iter().filter(is_cut) {
        interrupt(desk, run.id).await?;
    }
    Ok(())
}

async fn interrupt(desk: &Desk, id: String) -> session::Result<()> {
    mark_run(desk, id, RunStatus::Interrupted).await
}

pub(super) async fn mark_run(desk: &Desk, id: String, status: RunStatus) -> session::Result<()> {
    let update = RunUpdate { id, status, error: None };
    desk.store.append(&desk.key, Append { run: Some(update), ..Append::default() }).await?;
    Ok(())
}

impl Drop for Turn {
    /// A turn that was dropped in the middle must not hold up the next.
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (desk, lease, run) = (self.desk.clone(), self.lease(), self.run.take());
        Desk::afterwards(async move {
            let Some(lease) = desk.own_lease(lease).await else { return };
            // First of all: what was on its way when the turn was dropped is stored by then, and may have ended the run.
            release(&desk, &lease).await;
            desk.door.turns.notify_waiters();
            if let Some(id) = run
                && let Ok(Some(run)) = desk.store.run(&desk.key, &id).await
                && run.status == RunStatus::Running
            {
                let _ = interrupt(&desk, run.id).await;
            }
        });
    }
}
