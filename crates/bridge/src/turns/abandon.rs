//! Ends the run of a dropped turn: `interrupted` if it was running, `cancelled` if it was queued.

use super::{arrival::SessionQueue, backoff::Backoff, handle::Claim};
use failpoint::Point;
use session::{
    Commit, GoneOwner, Lease, OwnerClaim, Result, RunStatus, SessionKey, Store, TakeOver, TakenOver,
    TurnChange, Withdrawal,
};
use std::sync::Arc;

/// The phase of a turn when it was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AbandonedPhase {
    Queued,
    /// The commit that starts the run was in flight.
    Starting,
    Running(Lease),
}

/// The run of a dropped turn.
pub(super) struct Abandoned {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: SessionKey,
    pub(super) run: String,
    pub(super) claim: Claim,
    pub(super) session_queue: Arc<SessionQueue>,
    pub(super) phase: AbandonedPhase,
}

impl Abandoned {
    /// Ends the run. Store faults are retried without limit.
    pub(super) async fn end(self) {
        let mut backoff = Backoff::unlimited();
        loop {
            match self.try_end().await {
                Err(error) if error.is_storage_fault() => _ = backoff.again().await,
                Ok(()) | Err(_) => break,
            }
        }
        self.session_queue.changed.notify_waiters();
    }

    async fn try_end(&self) -> Result<()> {
        match (&self.phase, &self.claim) {
            (AbandonedPhase::Running(lease), _) => self.finish(lease.clone()).await,
            (AbandonedPhase::Queued, Claim::Own(owner) | Claim::Shared(owner)) => {
                self.withdraw(owner.name()).await
            }
            (AbandonedPhase::Starting, Claim::Own(owner)) => self.end_started(owner).await,
            // Other runs still hold the claim. Once they have ended, another owner takes this run over.
            (AbandonedPhase::Starting, Claim::Shared(_)) => Ok(()),
        }
    }

    /// Ends a run whose start was in flight. The store runs jobs in order: by now the start is committed, or it never
    /// will be.
    async fn end_started(&self, owner: &OwnerClaim) -> Result<()> {
        // Held until the run has ended: a gone owner's run would be taken over and resumed.
        let successor = self.store.claim_owner()?;
        for run in self.take_over(owner, &successor).await? {
            let mut backoff = Backoff::unlimited();
            while self.end_taken_over(&run, &successor).await.is_err_and(|error| error.is_storage_fault()) {
                backoff.again().await;
            }
        }
        Ok(())
    }

    async fn take_over(&self, owner: &OwnerClaim, successor: &OwnerClaim) -> Result<Vec<TakenOver>> {
        let gone = vec![GoneOwner { name: owner.name().to_owned(), if_beats: None }];
        let change = TakeOver { gone, owner: successor.name().to_owned(), session: Some(self.key.clone()) };
        self.store.take_over(change).await
    }

    async fn end_taken_over(&self, run: &TakenOver, successor: &OwnerClaim) -> Result<()> {
        match run.lease() {
            Some(lease) => self.finish(lease.clone()).await,
            None => self.withdraw(successor.name()).await,
        }
    }

    async fn finish(&self, lease: Lease) -> Result<()> {
        let turn = TurnChange::Finish { lease, status: RunStatus::Interrupted, error: None };
        let finished = self.store.commit(&self.key, Commit { turn, ..Commit::default() });
        failpoint::around([Point::BeforeFinish, Point::AfterFinish], finished).await.map(drop)
    }

    async fn withdraw(&self, owner: &str) -> Result<()> {
        let (id, owner, status) = (self.run.clone(), owner.to_owned(), RunStatus::Cancelled);
        let withdrawn = self.store.withdraw(&self.key, Withdrawal { id, owner, status, error: None });
        failpoint::around([Point::BeforeWithdraw, Point::AfterWithdraw], withdrawn).await.map(drop)
    }
}
