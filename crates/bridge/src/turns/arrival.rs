//! A fair lock for each session: messages that arrive at one process are accepted in the order of their arrival. From then on
//! the store knows the order.

use futures::{FutureExt, future::BoxFuture};
use std::{
    collections::BTreeMap,
    fmt, mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    sync::{Mutex as FairMutex, Notify, OwnedMutexGuard},
    task::coop::unconstrained,
};

/// What the runs of one session in this process share.
#[derive(Default)]
pub(crate) struct SessionGate {
    arrivals: Arc<FairMutex<()>>,
    /// Notified when a turn of this process ends, and when a queued run leaves the queue.
    pub(super) changed: Notify,
    /// Runs of this process that were accepted and have not ended.
    active: AtomicUsize,
    /// The runs that are queued by this process, by ticket. Only the first one polls the store. A run that was taken over
    /// joins late and may have the smallest ticket.
    queued: Mutex<BTreeMap<u64, String>>,
}

impl SessionGate {
    /// Joins the arrivals.
    pub(super) fn arrive(&self) -> ArrivalGuard {
        if let Ok(guard) = Arc::clone(&self.arrivals).try_lock_owned() {
            return ArrivalGuard::Held { _lock: guard };
        }
        let mut next = unconstrained(Arc::clone(&self.arrivals).lock_owned()).boxed();
        // A lock that was polled once has its place in the order.
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

    fn queue(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, String>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join_queue(&self, ticket: u64, id: &str) {
        self.queue().insert(ticket, id.to_owned());
        // The run that was the first may be behind this one now.
        self.changed.notify_waiters();
    }

    pub(super) fn leave_queue(&self, id: &str) {
        self.queue().retain(|_, queued| queued != id);
        self.changed.notify_waiters();
    }

    pub(super) fn is_first(&self, id: &str) -> bool {
        self.queue().first_key_value().is_some_and(|(_, first)| first == id)
    }
}

/// A place among the arrivals of a session. Dropping it admits the next one.
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
    /// Waits until all earlier arrivals were accepted or gave up.
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
    fn arrivals_are_admitted_one_by_one_in_order() {
        let gate = SessionGate::default();
        let [mut first, mut second, mut third] = [gate.arrive(), gate.arrive(), gate.arrive()];
        assert!(is_held(&mut first) && !is_held(&mut third) && !is_held(&mut second));
        first.release();
        // A later arrival does not overtake those that wait, however early it is polled.
        let mut late = gate.arrive();
        assert!(!is_held(&mut late) && !is_held(&mut third) && is_held(&mut second));
        second.release();
        assert!(!is_held(&mut late) && is_held(&mut third));
        drop(third);
        assert!(is_held(&mut late));
    }

    #[test]
    fn an_arrival_that_gives_up_blocks_nobody() {
        let gate = SessionGate::default();
        let (held, dropped, woken, mut last) = (gate.arrive(), gate.arrive(), gate.arrive(), gate.arrive());
        drop(dropped);
        assert!(!is_held(&mut last));
        drop(held);
        // It holds the lock by now, but was never polled again.
        drop(woken);
        assert!(is_held(&mut last));
    }
}
