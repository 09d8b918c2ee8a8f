//! How a queued run waits until it is the first of its session and the lease is free.

use super::{Orphan, TurnHandle, Turns};
use adk::session::SessionKey;
use failpoint::Point;
use session::{Activity, Lease, OwnedRun};
use std::time::Duration;

/// How often the first queued run of this process polls the store: another process does not notify when its turn ends.
const POLL: Duration = Duration::from_millis(40);

/// Where a queued run is that is not merely behind others.
pub(crate) enum QueuePosition {
    /// It is the first, and nothing runs.
    First,
    /// It has started, although the commit that started it failed for all we knew.
    Started(Lease),
    /// Runs of owners that are gone are before it: they were taken over, and have to be run first.
    BehindOrphans(Vec<Orphan>),
    /// It is not queued any more: another owner took it, or it was superseded.
    Gone,
}

impl Turns {
    /// Waits until a queued run is not merely behind others.
    pub(crate) async fn wait(&self, key: &SessionKey, turn: &TurnHandle) -> session::Result<QueuePosition> {
        let gate = turn.gate();
        loop {
            let changed = gate.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let is_first = gate.is_first(turn.run_id());
            if is_first {
                match self.position(key, turn).await {
                    Ok(Some(position)) => return Ok(position),
                    Ok(None) => {}
                    // A queued message loses nothing by waiting for a store that fails now.
                    Err(error) if error.is_storage_fault() => {}
                    Err(error) => return Err(error),
                }
                let _ = tokio::time::timeout(POLL, changed).await;
            } else {
                changed.await;
            }
        }
    }

    /// `None` if others are before it.
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

    /// Finds out whether the owner of the run that is before ours is gone.
    async fn behind(&self, key: &SessionKey, blocker: &OwnedRun) -> session::Result<Option<QueuePosition>> {
        self.0.watch.observe().await?;
        if !self.0.watch.is_gone(&blocker.owner) {
            return Ok(None);
        }
        if let Some(sweeper) = self.0.sweeper.get() {
            sweeper.notify_one();
            return Ok(None);
        }
        let orphans = self.take_over(Some(key)).await?;
        Ok((!orphans.is_empty()).then_some(QueuePosition::BehindOrphans(orphans)))
    }

    /// Observes other processes on behalf of a sweeper.
    pub(crate) async fn observe(&self) -> session::Result<()> {
        self.0.watch.observe().await
    }
}
