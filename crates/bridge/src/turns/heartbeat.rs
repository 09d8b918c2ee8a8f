//! The heartbeat of this process: one write every two seconds while it has runs, however many. Other processes fence
//! a process without a heartbeat; the reply to a heartbeat says whether this process was fenced, and which of its runs other
//! processes ask to cancel.

use super::handle::TurnHandle;
use failpoint::Point;
use lock::LockExt;
use session::Store;
use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

/// Interval between heartbeats.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);

/// The heartbeat task: one per process, started with its first turn, ended when no turn is left.
pub(super) struct HeartbeatTask {
    store: Arc<dyn Store>,
    watched: Mutex<WatchedTurns>,
}

#[derive(Default)]
struct WatchedTurns {
    turns: Vec<Weak<TurnHandle>>,
    is_beating: bool,
    /// The displacement counter of the last heartbeat: it grows when another owner takes over a run of this process.
    displaced: u64,
}

impl HeartbeatTask {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, watched: Mutex::default() }
    }

    /// Sends heartbeats while the turn exists, and cancels the turn if another owner takes over its run.
    pub(super) fn watch(self: &Arc<Self>, turn: &Arc<TurnHandle>) {
        let mut watched = self.watched();
        // Most turns end before the first heartbeat. Their entries are removed when the vector is full.
        if watched.turns.len() == watched.turns.capacity() {
            watched.turns.retain(|turn| turn.strong_count() > 0);
        }
        watched.turns.push(Arc::downgrade(turn));
        if !watched.is_beating && tokio::runtime::Handle::try_current().is_ok() {
            watched.is_beating = true;
            tokio::spawn(Arc::clone(self).beat());
        }
    }

    fn watched(&self) -> MutexGuard<'_, WatchedTurns> {
        self.watched.locked()
    }

    async fn beat(self: Arc<Self>) {
        let _guard = HeartbeatGuard(&self);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let turns: Vec<Arc<TurnHandle>> = {
                let mut watched = self.watched();
                watched.turns.retain(|turn| turn.strong_count() > 0);
                watched.is_beating = !watched.turns.is_empty();
                watched.turns.iter().filter_map(Weak::upgrade).collect()
            };
            if turns.is_empty() {
                return;
            }
            // A failed heartbeat is retried at the next interval. If it keeps failing, other processes take over.
            let points = [Point::BeforeHeartbeat, Point::AfterHeartbeat];
            let Ok(heartbeat) = failpoint::around(points, self.store.heartbeat()).await else { continue };
            let is_named = |turn: &TurnHandle| {
                heartbeat.cancelled.iter().any(|(key, id)| key == turn.key() && id == turn.run_id())
            };
            turns.iter().filter(|turn| is_named(turn)).for_each(|turn| turn.cancel());
            let before = std::mem::replace(&mut self.watched().displaced, heartbeat.displaced);
            if heartbeat.displaced != before {
                for turn in turns {
                    self.cancel_if_lost(&turn).await;
                }
            }
        }
    }

    async fn cancel_if_lost(&self, turn: &TurnHandle) {
        if turn.lease().is_none() {
            return;
        }
        let activity = self.store.activity(turn.key()).await;
        let is_ours = match activity {
            Ok(activity) => activity.running.is_some_and(|run| run.owner == turn.owner()),
            Err(session::Error::NotFound(_)) => false,
            Err(_) => true,
        };
        // The turn may have ended in the meantime.
        if !is_ours && turn.lease().is_some() {
            turn.lose();
        }
    }
}

/// Resets the flag when the runtime drops the task, so that the next turn starts another.
struct HeartbeatGuard<'a>(&'a HeartbeatTask);

impl Drop for HeartbeatGuard<'_> {
    fn drop(&mut self) {
        self.0.watched().is_beating = false;
    }
}
