//! A budget of memory in bytes that requests share.

use lock::LockExt;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The unit of the budget in bytes.
const UNIT: usize = 1024;

/// Clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    /// The units that one user may have.
    share: usize,
    total: Arc<Semaphore>,
    of_users: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
    /// The number of requests that wait because other users have the budget.
    waiting: Arc<watch::Sender<usize>>,
}

/// A part of the budget. The units of the user are returned first.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    of_user: OwnedSemaphorePermit,
    of_total: OwnedSemaphorePermit,
}

impl MemoryBudget {
    /// A budget of which a user may have half.
    pub(crate) fn divided(bytes: usize) -> Self {
        let budget = Self::new(bytes);
        Self { share: budget.share / 2, ..budget }
    }

    /// A budget of which a user may have all.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(2, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self {
            share: units,
            total: Arc::new(Semaphore::new(units)),
            of_users: Arc::default(),
            waiting: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Waits for a part of the budget. More than the share of a user takes all of the share. `None` never happens: the
    /// semaphores are not closed.
    pub(crate) async fn acquire(&self, user: &str, bytes: usize) -> Option<MemoryPermit> {
        let share = self.share;
        let units = u32::try_from(bytes.div_ceil(UNIT).min(share)).unwrap_or(u32::MAX);
        let of_user = {
            let mut users = self.of_users.locked();
            users.retain(|name, units| name == user || Arc::strong_count(units) > 1);
            Arc::clone(users.entry(user.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(share))))
        };
        let of_user = of_user.acquire_many_owned(units).await.ok()?;
        let _waiter = Waiter::new(Arc::clone(&self.waiting));
        let of_total = Arc::clone(&self.total).acquire_many_owned(units).await.ok()?;
        Some(MemoryPermit { of_user, of_total })
    }

    /// Resolves when a request waits because other users have the budget.
    pub(crate) async fn contended(&self) {
        let mut waiting = self.waiting.subscribe();
        // The sender lives as long as the budget.
        let _ = waiting.wait_for(|count| *count > 0).await;
    }
}

impl MemoryPermit {
    /// Returns what exceeds the given size.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let units = bytes.div_ceil(UNIT);
        for permit in [&mut self.of_user, &mut self.of_total] {
            drop(permit.split(permit.num_permits().saturating_sub(units)));
        }
    }
}

struct Waiter(Arc<watch::Sender<usize>>);

impl Waiter {
    fn new(waiting: Arc<watch::Sender<usize>>) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const MB: usize = 1024 * 1024;

    #[tokio::test]
    async fn a_user_has_at_most_half_and_a_smaller_permit_returns_the_rest() {
        let budget = MemoryBudget::divided(8 * MB);
        let mut of_ann = budget.acquire("ann", 100 * MB).await.unwrap();
        assert!(budget.acquire("ann", 1).now_or_never().is_none());
        assert!(budget.contended().now_or_never().is_none(), "only the share of one user is used up");
        let of_bob = budget.acquire("bob", 4 * MB).await.unwrap();
        let mut third = Box::pin(budget.acquire("eve", MB));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(budget.contended().now_or_never().is_some());
        of_ann.shrink(3 * MB);
        assert!(third.await.is_some());
        assert!(budget.contended().now_or_never().is_none());
        assert!(budget.acquire("ann", MB).await.is_some());
        drop((of_ann, of_bob));
        assert_eq!(budget.total.available_permits(), 8 * MB / UNIT);
    }
}
