//! A fair lock for each session: messages that arrive at one process are accepted in order of arrival. After
//! acceptance, the ticket in the store determines the order.

use futures::{FutureExt, future::BoxFuture};
use lock::LockExt;
use session::NewRun;
use std::{
    collections::BTreeMap,
    fmt, mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    sync::{Mutex as FairMutex, Notify, OwnedMutexGuard},
    task::coop::unconstrained,
};

/// The fair lock and the queue of one session within this process.
#[derive(Default)]
pub(crate) struct SessionQueue {
    arrivals: Arc<FairMutex<()>>,
    /// Notified when a turn of this process ends, and when the local queue changes.
    pub(super) changed: Notify,
    /// Number of accepted runs of this process that have not ended.
    active: AtomicUsize,
    /// The queued runs of this process, by ticket. Only the first one polls the store. A run that was taken over
    /// joins late and may have the smallest ticket.
    queued: Mutex<BTreeMap<u64, QueuedRun>>,
}

/// A queued run of this process. The owner distinguishes it from a refused request for the same run id.
struct QueuedRun {
    id: String,
    owner: String,
}

impl QueuedRun {
    fn is(&self, run: &NewRun) -> bool {
        self.id == run.id && self.owner == run.owner
    }
}

impl SessionQueue {
    /// Acquires the arrival lock, or joins its wait queue.
    pub(super) fn arrive(&self) -> ArrivalGuard {
        if let Ok(guard) = Arc::clone(&self.arrivals).try_lock_owned() {
            return ArrivalGuard::Held { _lock: guard };
        }
        let mut next = unconstrained(Arc::clone(&self.arrivals).lock_owned()).boxed();
        // Polling a lock once fixes its position in the wait queue.
        match (&mut next).now_or_never() {
            Some(guard) => ArrivalGuard::Held { _lock: guard },
            None => ArrivalGuard::Waiting(next),
        }
    }

    /// Whether a run of this process holds the lease or is queued.
    pub(crate) fn is_busy(&self) -> bool {
        self.active.load(Ordering::Acquire) > 0
    }

    pub(super) fn accepted(&self) {
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn ended(&self) {
        self.active.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, QueuedRun>> {
        self.queued.locked()
    }

    pub(super) fn join_queue(&self, ticket: u64, run: &NewRun) {
        self.queue().insert(ticket, QueuedRun { id: run.id.clone(), owner: run.owner.clone() });
        // The run that was first may be second now.
        self.changed.notify_waiters();
    }

    pub(super) fn leave_queue(&self, run: &NewRun) {
        self.queue().retain(|_, queued| !queued.is(run));
        self.changed.notify_waiters();
    }

    pub(super) fn is_first(&self, run: &NewRun) -> bool {
        self.queue().first_key_value().is_some_and(|(_, first)| first.is(run))
    }
}

/// A position among the arrivals of a session. Dropping it admits the next arrival.
#[derive(Default)]
pub(crate) enum ArrivalGuard {
    #[default]
    Released,
    Waiting(BoxFuture<'static, OwnedMutexGuard<()>>),
    Held {
        _lock: OwnedMutexGuard<()>,
    },
}

impl ArrivalGuard {
    /// Waits until all earlier arrivals were accepted or dropped.
    pub(crate) async fn acquire(&mut self) {
        if let Self::Waiting(next) = self {
            *self = Self::Held { _lock: next.await };
        }
    }

    /// Admits the next arrival.
    pub(crate) fn release(&mut self) {
        drop(mem::take(self));
    }
}

impl fmt::Debug for ArrivalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "Released",
            Self::Waiting(_) => "Waiting",
            Self::Held { .. } => "Held",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held(guard: &mut ArrivalGuard) -> bool {
        guard.acquire().now_or_never().is_some()
    }

    #[test]
    fn arrivals_acquire_the_lock_in_order() {
        let session_queue = SessionQueue::default();
        let [mut first, mut second, mut third] =
            [session_queue.arrive(), session_queue.arrive(), session_queue.arrive()];
        assert!(is_held(&mut first) && !is_held(&mut third) && !is_held(&mut second));
        first.release();
        // A later arrival does not overtake a waiting one, however early it is polled.
        let mut late = session_queue.arrive();
        assert!(!is_held(&mut late) && !is_held(&mut third) && is_held(&mut second));
        second.release();
        assert!(!is_held(&mut late) && is_held(&mut third));
        drop(third);
        assert!(is_held(&mut late));
    }

    #[test]
    fn dropped_arrival_does_not_block_the_next_one() {
        let session_queue = SessionQueue::default();
        let (held, dropped, woken, mut last) =
            (session_queue.arrive(), session_queue.arrive(), session_queue.arrive(), session_queue.arrive());
        drop(dropped);
        assert!(!is_held(&mut last));
        drop(held);
        // It was granted the lock but never polled again.
        drop(woken);
        assert!(is_held(&mut last));
    }
}
