//! One task renews the leases of all turns that run in this process. It sleeps between, and ends when there are none:
//! most turns end before their first renewal, and cost nothing here but an entry in a table.

use super::{Desk, turn::LEASE};
use crate::service::TurnMark;
use futures::future::join_all;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(super) struct Keeper {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    turns: HashMap<u64, Watched>,
    last: u64,
    /// A task looks after them.
    is_kept: bool,
}

/// A turn whose lease is to be renewed.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) desk: Desk,
    pub(super) mark: Arc<Mutex<TurnMark>>,
    /// Cancelled if the turn is taken away.
    pub(super) lost: CancellationToken,
}

/// Its turn is looked after until this is dropped.
pub(super) struct Keeping {
    keeper: Arc<Keeper>,
    number: u64,
}

impl Keeper {
    pub(super) fn keep(self: &Arc<Self>, turn: Watched) -> Keeping {
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.turns.insert(number, turn);
        if !table.is_kept {
            table.is_kept = true;
            tokio::spawn(Arc::clone(self).renew());
        }
        Keeping { keeper: Arc::clone(self), number }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(self: Arc<Self>) {
        let _watch = Watch(&self);
        loop {
            tokio::time::sleep(LEASE / 3).await;
            let turns: Vec<Watched> = {
                let mut table = self.table();
                table.is_kept = !table.turns.is_empty();
                table.turns.values().cloned().collect()
            };
            if turns.is_empty() {
                return;
            }
            join_all(turns.into_iter().map(Watched::renew)).await;
        }
    }
}

/// A runtime that ends takes the task with it, and the next turn needs another.
struct Watch<'a>(&'a Keeper);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.table().is_kept = false;
    }
}

impl Watched {
    async fn renew(self) {
        let Some(lease) = self.desk.lease(&self.mark) else { return };
        // Any other error is no reason to stop: if it lasts, somebody else takes the lease, and the next append says so.
        if let Err(session::Error::Fenced(_) | session::Error::NotFound(_)) =
            self.desk.store.renew(&lease, LEASE).await
        {
            self.lost.cancel();
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.keeper.table().turns.remove(&self.number);
    }
}
