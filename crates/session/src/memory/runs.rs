//! The runs of a session in memory: queue, owners and draft.

use super::session::{MemorySession, RunWithPayload};
use crate::{
    Activity, Draft, Lease, NewRun, OwnedRun, Result, RunRecord, RunStatus, TakenOver, TakenOverState,
    Withdrawal, lifecycle::Transition,
};

impl MemorySession {
    pub(super) fn enqueue(&mut self, new: &NewRun, ticket: u64, payload: String) -> Result<()> {
        new.admit(&self.row.key, self.by_id(&new.id).is_some())?;
        let state = self.apply(&new.id, &Transition::Enqueue { owner: new.owner.clone(), ticket })?.run;
        if let Some(run) = self.by_id_mut(&new.id) {
            run.set(state);
            run.payload = Some(payload);
        } else {
            let (number, end) = (self.next_number(), self.row.last_seq);
            self.insert(new.id.clone(), number, (state, end, Some(payload)));
        }
        Ok(())
    }

    pub(super) fn payload(&self, id: &str) -> Option<String> {
        self.by_id(id).filter(|run| run.run.status == RunStatus::Queued)?.payload.clone()
    }

    pub(super) fn withdraw(&mut self, withdrawal: Withdrawal) -> bool {
        let change = Transition::Withdraw { owner: withdrawal.owner, to: withdrawal.status };
        let Ok(next) = self.apply(&withdrawal.id, &change) else { return false };
        if let Some(run) = self.by_id_mut(&withdrawal.id) {
            run.set(next.run);
            run.run.error = withdrawal.error;
        }
        true
    }

    /// The queued and running runs: the running one first, then in the order of the queue.
    pub(super) fn open_runs(&self) -> Vec<&RunWithPayload> {
        let mut open: Vec<&RunWithPayload> =
            self.runs.iter().filter(|run| run.run.status.is_owned()).collect();
        open.sort_by_key(|run| run.run.ticket);
        open
    }

    pub(super) fn take_over(&mut self, id: &str, from: String, owner: &str) -> Option<TakenOver> {
        let next = self.apply(id, &Transition::TakeOver { from, owner: owner.to_owned() }).ok()?;
        self.lease_epoch = next.epoch;
        let (key, epoch) = (self.row.key.clone(), self.lease_epoch);
        let run = self.by_id_mut(id)?;
        run.run.owner = next.run.owner;
        let state = if let Some(ticket) = run.run.ticket {
            TakenOverState::Queued { ticket }
        } else {
            let lease = Lease { key: key.clone(), run: run.run.number, epoch };
            TakenOverState::Running { lease, options: run.payload.clone() }
        };
        Some(TakenOver { key, id: id.to_owned(), state })
    }

    pub(super) fn activity(&self) -> Activity {
        let owned = |RunWithPayload { run, .. }: &&RunWithPayload| OwnedRun {
            id: run.id.clone(),
            owner: run.owner.clone(),
            ticket: run.ticket,
        };
        let open = self.open_runs();
        let of = |status| open.iter().find(|run| run.run.status == status).map(owned);
        let lease = |run: &&RunWithPayload| Lease {
            key: self.row.key.clone(),
            run: run.run.number,
            epoch: self.lease_epoch,
        };
        Activity {
            running: of(RunStatus::Running),
            lease: open.iter().find(|run| run.run.status == RunStatus::Running).map(lease),
            first_queued: of(RunStatus::Queued),
        }
    }

    pub(super) fn extend_draft(&mut self, lease: &Lease, chunk: String) -> Result<()> {
        self.fence(lease)?;
        let run = self.runs.iter().find(|run| run.run.number == lease.run);
        let run = run.map(|run| run.run.id.clone()).unwrap_or_default();
        self.draft.get_or_insert(Draft { run, chunks: Vec::new() }).chunks.push(chunk);
        Ok(())
    }

    pub(super) fn run(&self, id: &str) -> Option<RunRecord> {
        let run = self.by_id(id)?;
        let before = |other: &&RunWithPayload| {
            other.run.status == RunStatus::Queued && other.run.ticket < run.run.ticket
        };
        let is_queued = run.run.status == RunStatus::Queued;
        let ahead = is_queued.then(|| self.runs.iter().filter(before).count() as u64);
        Some(RunRecord { ahead, ..run.run.clone() })
    }

    pub(super) fn runs(&self, limit: usize) -> Vec<RunRecord> {
        self.runs.iter().rev().take(limit).map(|run| run.run.clone()).collect()
    }
}
