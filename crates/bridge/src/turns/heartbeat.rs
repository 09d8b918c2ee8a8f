//! The heartbeat of this process: one write every two seconds while it has runs, however many. A process without a heartbeat
//! is fenced by others; the answer to a heartbeat says whether that happened to this one.

use super::handle::TurnHandle;
use failpoint::Point;
use session::Store;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// Between two heartbeats.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct HeartbeatTask {
    store: Arc<dyn Store>,
    attended: Mutex<Attended>,
}

#[derive(Default)]
struct Attended {
    turns: Vec<Weak<TurnHandle>>,
    is_beating: bool,
    /// What the last heartbeat said about runs that others took over.
    displaced: u64,
}

impl HeartbeatTask {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, attended: Mutex::default() }
    }

    /// Beats as long as the turn exists, and cancels it if another owner takes its run over.
    pub(super) fn attend(self: &Arc<Self>, turn: &Arc<TurnHandle>) {
        let mut attended = self.attended();
        // Most turns end before the first heartbeat: their entries are swept when they outnumber the others.
        if attended.turns.len() == attended.turns.capacity() {
            attended.turns.retain(|turn| turn.strong_count() > 0);
        }
        attended.turns.push(Arc::downgrade(turn));
        if !attended.is_beating && tokio::runtime::Handle::try_current().is_ok() {
            attended.is_beating = true;
            tokio::spawn(Arc::clone(self).beat());
        }
    }

    fn attended(&self) -> MutexGuard<'_, Attended> {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn beat(self: Arc<Self>) {
        let _beating = Beating(&self);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let turns: Vec<Arc<TurnHandle>> = {
                let mut attended = self.attended();
                attended.turns.retain(|turn| turn.strong_count() > 0);
                attended.is_beating = !attended.turns.is_empty();
                attended.turns.iter().filter_map(Weak::upgrade).collect()
            };
            if turns.is_empty() {
                return;
            }
            // A failed heartbeat is tried again at the next one: if it keeps failing, others take over.
            let points = [Point::BeforeHeartbeat, Point::AfterHeartbeat];
            let Ok(heartbeat) = failpoint::around(points, self.store.heartbeat()).await else { continue };
            let before = std::mem::replace(&mut self.attended().displaced, heartbeat.displaced);
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
        // The turn may have ended meanwhile.
        if !is_ours && turn.lease().is_some() {
            turn.lose();
        }
    }
}

/// A runtime that ends takes the task with it; the next turn starts another.
struct Beating<'a>(&'a HeartbeatTask);

impl Drop for Beating<'_> {
    fn drop(&mut self) {
        self.0.attended().is_beating = false;
    }
}
