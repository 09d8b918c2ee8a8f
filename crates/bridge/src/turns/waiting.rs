//! Waits until a queued run is first in its session's queue and the lease is free.

use super::{Orphan, TurnHandle, Turns};
use adk::session::SessionKey;
use failpoint::Point;
use session::{Activity, Lease, OwnedRun};
use std::time::Duration;

/// Poll interval of the first queued run of this process: other processes do not notify at the end of a turn.
const POLL: Duration = Duration::from_millis(40);

/// The position of a queued run that needs an action.
pub(crate) enum QueuePosition {
    /// First in the queue, and no run holds the lease.
    First,
    /// The run has started: its start failed with a store fault, but the commit is durable.
    Started(Lease),
    /// Runs of gone owners were before it. This process has taken them over and must run them first.
    BehindOrphans(Vec<Orphan>),
    /// No longer queued: another owner took it over, or it was superseded.
    Gone,
}

impl Turns {
    /// Waits until the position of a queued run needs an action.
    pub(crate) async fn wait(&self, key: &SessionKey, turn: &TurnHandle) -> session::Result<QueuePosition> {
        let session_queue = turn.session_queue();
        loop {
            let changed = session_queue.changed.notified();
            tokio::pin!(changed);
            // Subscribes before the check, so that no notification is lost.
            changed.as_mut().enable();
            let is_first = session_queue.is_first(turn.run());
            if is_first {
                match self.position(key, turn).await {
                    Ok(Some(position)) => return Ok(position),
                    Ok(None) => {}
                    // A queued run may wait until the store recovers.
                    Err(error) if error.is_storage_fault() => {}
                    Err(error) => return Err(error),
                }
                let _ = tokio::time::timeout(POLL, changed).await;
            } else {
                changed.await;
            }
        }
    }

    /// `None` while other runs are before it.
    async fn position(&self, key: &SessionKey, turn: &TurnHandle) -> session::Result<Option<QueuePosition>> {
        failpoint::reach(Point::QueuePosition).await?;
        let activity = self.0.store.activity(turn.key()).await?;
        if let Some(lease) = activity.lease_of(turn.run_id(), turn.owner()) {
            return Ok(Some(QueuePosition::Started(lease)));
        }
        let Activity { running, first_queued, .. } = activity;
        let Some(first) = first_queued.filter(|first| first.ticket <= turn.ticket()) else {
            return Ok(Some(QueuePosition::Gone));
        };
        if first.id == turn.run_id() && first.owner != turn.owner() {
            return Ok(Some(QueuePosition::Gone));
        }
        match running {
            None if first.id == turn.run_id() => Ok(Some(QueuePosition::First)),
            None => self.behind(key, &first).await,
            Some(running) => self.behind(key, &running).await,
        }
    }

    /// Takes over the runs before this one if the owner of the blocking run is gone.
    async fn behind(&self, key: &SessionKey, blocker: &OwnedRun) -> session::Result<Option<QueuePosition>> {
        self.0.watch.observe().await?;
        if !self.0.watch.is_gone(&blocker.owner) {
            return Ok(None);
        }
        if let Some(recovery_wake) = self.0.recovery_wake.get() {
            recovery_wake.notify_one();
            return Ok(None);
        }
        let orphans = self.take_over(Some(key)).await?;
        Ok((!orphans.is_empty()).then_some(QueuePosition::BehindOrphans(orphans)))
    }

    /// Observes other processes on behalf of the recovery task.
    pub(crate) async fn observe(&self) -> session::Result<()> {
        self.0.watch.observe().await
    }
}
