//! The state of the model: processes with the leases that they believe to hold, and the stored sessions.

use crate::model::Rules;
use session::{
    RunStatus,
    lifecycle::{RunState, Transition, TransitionRefusal, TurnState},
};

/// One claim of one process.
pub(crate) type OwnerId = u8;
/// The name of all dead owners: they do not act, so they need not be distinguished. A restarted process has another name than
/// the dead one.
pub(crate) const DEAD: OwnerId = OwnerId::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ProcessStatus {
    Works,
    /// Stopped, swapped out or suspended: it may continue later with the leases that it had.
    Paused,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelProcess {
    pub(crate) owner: OwnerId,
    pub(crate) status: ProcessStatus,
    /// The others have seen no heartbeat for so long that they may displace it. No clock is modelled: any time may pass between
    /// two actions.
    pub(crate) is_silent: bool,
    /// All leases that it acquired, including finished and lost ones, because a task may still hold a copy.
    pub(crate) leases: Vec<HeldLease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HeldLease {
    pub(crate) session: usize,
    pub(crate) run: usize,
    pub(crate) epoch: u64,
}

/// A violation in a commit that the resulting state does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Violation {
    EpochNotNew,
    CommitOfNoHolder,
    OutOfOrder,
    TerminalChanged,
    WrongLease,
}

/// A stored session with the data for the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    epoch: u64,
    pub(crate) runs: Vec<Run>,
    last_ticket: u64,
    /// The newest epoch under which a lease was acquired.
    newest_lease: u64,
    /// The queued runs in the order of acceptance, tracked independently of tickets.
    accepted: Vec<usize>,
    pub(crate) violation: Option<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) state: RunState<OwnerId>,
    /// Whether it has asked its question.
    pub(crate) has_asked: bool,
}

impl Session {
    pub(crate) fn turns(&self) -> TurnState {
        let tickets = self.runs.iter().filter(|run| run.state.status == RunStatus::Queued);
        TurnState {
            epoch: self.epoch,
            is_leased: self.running().next().is_some(),
            first_ticket: tickets.filter_map(|run| run.state.ticket).min(),
        }
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.state.status == RunStatus::Running)
    }

    /// The queued and running runs of an owner: the running one first, then by ticket.
    pub(crate) fn open_runs_of(&self, owner: OwnerId) -> Vec<usize> {
        let is_open = |index: &usize| {
            let state = &self.runs[*index].state;
            state.status.is_owned() && state.owner == owner
        };
        let mut open: Vec<usize> = (0..self.runs.len()).filter(is_open).collect();
        open.sort_by_key(|index| self.runs[*index].state.ticket);
        open
    }
}

/// The commits of the store.
impl Session {
    /// Applies one transition to a run, or to a new one.
    fn apply(
        &mut self,
        rules: &Rules,
        index: usize,
        change: &Transition<OwnerId>,
    ) -> Result<(), TransitionRefusal> {
        let before = self.runs.get(index).map(|run| run.state.clone());
        let next = (rules.transition)(&self.turns(), before.as_ref(), change)?;
        let was = before.as_ref().map(|state| state.status);
        if before.is_some_and(|before| before.status.is_terminal() && before != next.run) {
            self.violation = Some(Violation::TerminalChanged);
        }
        self.epoch = next.epoch;
        self.move_in_queue(index, was, next.run.status);
        match self.runs.get_mut(index) {
            Some(run) => run.state = next.run,
            None => self.runs.push(Run { state: next.run, has_asked: false }),
        }
        if next.is_leased != self.turns().is_leased {
            self.violation = Some(Violation::WrongLease);
        }
        Ok(())
    }

    fn move_in_queue(&mut self, index: usize, was: Option<RunStatus>, is: RunStatus) {
        let was_queued = was == Some(RunStatus::Queued);
        if is == RunStatus::Running && was != Some(RunStatus::Running) {
            let is_first =
                if was_queued { self.accepted.first() == Some(&index) } else { self.accepted.is_empty() };
            if !is_first {
                self.violation = Some(Violation::OutOfOrder);
            }
        }
        if was_queued && is != RunStatus::Queued {
            self.accepted.retain(|other| *other != index);
        }
        if is == RunStatus::Queued && !was_queued {
            self.accepted.push(index);
        }
    }

    /// Checks and records the epoch of a lease that was just acquired.
    fn acquired(&mut self) -> u64 {
        if self.epoch <= self.newest_lease {
            self.violation = Some(Violation::EpochNotNew);
        }
        self.newest_lease = self.epoch;
        self.epoch
    }

    pub(crate) fn enqueue(
        &mut self,
        rules: &Rules,
        owner: OwnerId,
        index: usize,
    ) -> Result<(), TransitionRefusal> {
        let ticket = self.last_ticket + 1;
        self.apply(rules, index, &Transition::Enqueue { owner, ticket })?;
        self.last_ticket = ticket;
        Ok(())
    }

    /// A message supersedes all questions; an answer settles its own question.
    pub(crate) fn start(
        &mut self,
        rules: &Rules,
        owner: OwnerId,
        index: usize,
    ) -> Result<u64, TransitionRefusal> {
        let epoch = self.start_with_result(rules, owner, index)?;
        if !self.runs[index].has_asked {
            let asked = (0..self.runs.len()).filter(|other| self.runs[*other].has_asked);
            for other in asked.collect::<Vec<_>>() {
                // A run that ended meanwhile is unchanged.
                let _ = self.apply(rules, other, &Transition::Supersede);
            }
        }
        Ok(epoch)
    }

    /// Starts a run with the late result of a call, which supersedes no question.
    pub(crate) fn start_with_result(
        &mut self,
        rules: &Rules,
        owner: OwnerId,
        index: usize,
    ) -> Result<u64, TransitionRefusal> {
        self.apply(rules, index, &Transition::Start { owner, if_epoch: None })?;
        Ok(self.acquired())
    }

    pub(crate) fn withdraw(
        &mut self,
        rules: &Rules,
        owner: OwnerId,
        index: usize,
    ) -> Result<(), TransitionRefusal> {
        self.apply(rules, index, &Transition::Withdraw { owner, to: RunStatus::Cancelled })
    }

    /// Withdraws the question of a waiting run. The commit appends to the log, so no run may hold the lease.
    pub(crate) fn cancel(&mut self, rules: &Rules, index: usize) -> Result<(), TransitionRefusal> {
        let is_leased = self.running().next().is_some();
        self.apply(rules, index, &Transition::Cancel)?;
        if is_leased {
            self.violation = Some(Violation::CommitOfNoHolder);
        }
        Ok(())
    }

    pub(crate) fn step(
        &mut self,
        rules: &Rules,
        by: OwnerId,
        lease: HeldLease,
    ) -> Result<(), TransitionRefusal> {
        (rules.fence)(&self.turns(), lease.epoch)?;
        self.check_holder(by, lease);
        Ok(())
    }

    pub(crate) fn finish(
        &mut self,
        rules: &Rules,
        (by, lease): (OwnerId, HeldLease),
        to: RunStatus,
    ) -> Result<(), TransitionRefusal> {
        let mut before = self.clone();
        self.apply(rules, lease.run, &Transition::Finish { epoch: lease.epoch, to })?;
        before.check_holder(by, lease);
        self.violation = self.violation.or(before.violation);
        self.runs[lease.run].has_asked |= to == RunStatus::Waiting;
        Ok(())
    }

    /// Records a violation if an admitted commit was not made by the holder of the lease.
    fn check_holder(&mut self, by: OwnerId, lease: HeldLease) {
        let RunState { status, owner, .. } = &self.runs[lease.run].state;
        let is_holder = *status == RunStatus::Running && *owner == by && lease.epoch == self.newest_lease;
        if !is_holder {
            self.violation = Some(Violation::CommitOfNoHolder);
        }
    }

    /// Returns the running run and its new epoch.
    pub(crate) fn take_over(&mut self, rules: &Rules, by: OwnerId, from: OwnerId) -> Option<(usize, u64)> {
        let mut lease = None;
        for index in self.open_runs_of(from) {
            let taken = self.apply(rules, index, &Transition::TakeOver { from, owner: by }).is_ok();
            if taken && self.runs[index].state.status == RunStatus::Running {
                lease = Some((index, self.acquired()));
            }
        }
        lease
    }

    /// Whether an owner that takes over all runs can finish them in order.
    pub(crate) fn recovers(mut self, rules: &Rules) -> bool {
        let (by, owners) = (DEAD - 1, self.runs.iter().map(|run| run.state.owner).collect::<Vec<_>>());
        let finish = |session: &mut Self, (run, epoch)| {
            session.finish(rules, (by, HeldLease { session: 0, run, epoch }), RunStatus::Done).is_ok()
        };
        for from in owners {
            if let Some(lease) = self.take_over(rules, by, from)
                && !finish(&mut self, lease)
            {
                return false;
            }
        }
        while let Some(first) = self.accepted.first().copied() {
            match self.start(rules, by, first) {
                Ok(epoch) if finish(&mut self, (first, epoch)) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        let is_settled = |run: &Run| !run.state.status.is_owned();
        self.runs.iter().all(is_settled)
    }

    fn is_consistent(&self) -> bool {
        self.violation.is_none() && self.newest_lease <= self.epoch
    }

    /// Normalises tickets and epochs, because only their order matters, and the owners of runs that are not open.
    fn renumber(&mut self) {
        for run in self.runs.iter_mut().filter(|run| !run.state.status.is_owned()) {
            run.state.owner = DEAD;
        }
        for (ticket, index) in (1..).zip(&self.accepted) {
            self.runs[*index].state.ticket = Some(ticket);
        }
        self.last_ticket = self.accepted.len() as u64;
        let is_held = self.newest_lease == self.epoch && self.epoch > 0;
        (self.epoch, self.newest_lease) = if is_held { (HELD, HELD) } else { (RELEASED, STALE) };
    }
}

/// Epochs after renumbering: those of all earlier leases, of a session whose lease was released, and of a held lease.
const STALE: u64 = 0;
const RELEASED: u64 = 1;
const HELD: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) processes: Vec<ModelProcess>,
    pub(crate) sessions: Vec<Session>,
}

impl World {
    pub(crate) fn new(owners: OwnerId, sessions: usize) -> Self {
        let status = ProcessStatus::Works;
        let process = |owner| ModelProcess { owner, status, is_silent: false, leases: Vec::new() };
        let processes = (0..owners).map(process).collect();
        Self { processes, sessions: vec![Session::default(); sessions] }.canonical()
    }

    pub(crate) fn update(&mut self, owner: OwnerId, change: impl FnOnce(&mut ModelProcess)) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.owner == owner) {
            change(process);
        }
    }

    /// Kills an owner: its runs belong to a dead owner, and its leases are dropped.
    pub(crate) fn kill(&mut self, owner: OwnerId) {
        self.update(owner, |process| {
            (process.status, process.is_silent) = (ProcessStatus::Dead, false);
            process.leases.clear();
        });
        for run in self.sessions.iter_mut().flat_map(|session| &mut session.runs) {
            if run.state.owner == owner {
                run.state.owner = DEAD;
            }
        }
    }

    /// The canonical form of the state. Histories that differ only in numbers are explored once, so the number of kills, pauses
    /// and displacements is unbounded.
    pub(crate) fn canonical(mut self) -> Self {
        if !self.sessions.iter().all(Session::is_consistent) {
            return self;
        }
        for process in &mut self.processes {
            for lease in &mut process.leases {
                let is_current = lease.epoch == self.sessions[lease.session].epoch;
                lease.epoch = if is_current { HELD } else { STALE };
            }
            process.leases.sort_unstable();
            process.leases.dedup();
        }
        self.sessions.iter_mut().for_each(Session::renumber);
        self.rename_owners();
        self
    }

    /// Symmetry reduction: states that differ only in the names of owners are explored once.
    fn rename_owners(&mut self) {
        let sessions = &self.sessions;
        self.processes.sort_by_cached_key(|ModelProcess { owner, status, is_silent, leases }| {
            let open: Vec<_> = sessions.iter().map(|session| session.open_runs_of(*owner)).collect();
            (*status, *is_silent, leases.clone(), open)
        });
        let names: Vec<OwnerId> = self.processes.iter().map(|process| process.owner).collect();
        let renamed = |owner: OwnerId| {
            (0..).zip(&names).find(|(_, name)| **name == owner).map_or(owner, |(new, _)| new)
        };
        for run in self.sessions.iter_mut().flat_map(|session| &mut session.runs) {
            run.state.owner = renamed(run.state.owner);
        }
        for process in &mut self.processes {
            process.owner = renamed(process.owner);
        }
    }
}
