//! The model: actions of owners on sessions, and the properties that hold for every interleaving.

use crate::world::{DEAD, HeldLease, ModelProcess, OwnerId, ProcessStatus, Run, Session, Violation, World};
use session::{
    RunStatus,
    lifecycle::{self, NextState, RunState, Transition, TransitionRefusal, TurnState},
};
use stateright::{Model, Property};

type TransitionRule = fn(
    &TurnState,
    Option<&RunState<OwnerId>>,
    &Transition<OwnerId>,
) -> Result<NextState<OwnerId>, TransitionRefusal>;

/// The transition functions: those of the product, or mutations that the checker must detect.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) transition: TransitionRule,
    pub(crate) fence: fn(&TurnState, u64) -> Result<(), TransitionRefusal>,
}

impl Rules {
    pub(crate) fn product() -> Self {
        Self { transition: lifecycle::transition, fence: lifecycle::fence }
    }
}

/// Bounds that keep the state space finite.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) owners: u8,
    pub(crate) sessions: usize,
    /// Per session. Each run asks at most one question.
    pub(crate) runs: usize,
    /// Whether runs start with late results, which supersede no question, so that several runs may wait.
    pub(crate) late_results: bool,
}

pub(crate) struct Lifecycle {
    pub(crate) rules: Rules,
    pub(crate) bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Kill(OwnerId),
    Pause(OwnerId),
    Continue(OwnerId),
    /// A new process replaces a dead one.
    Restart(OwnerId),
    Heartbeat(OwnerId),
    /// The other owners consider the owner silent, correctly or not.
    Expire(OwnerId),
    TakeOver {
        by: OwnerId,
        from: OwnerId,
    },
    Commit {
        by: OwnerId,
        session: usize,
        change: Change,
    },
}

/// A commit to a session. Runs are identified by index; the next free index is a new run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Queues a message or the answer to a question.
    Enqueue(usize),
    /// Starts a run with a message: directly, from the queue, or as the answer to its question.
    Start(usize),
    /// Starts a run with the late result of a call.
    StartWithResult(usize),
    Withdraw(usize),
    /// A person withdraws the question of a run.
    Cancel(usize),
    Step(HeldLease),
    Finish(HeldLease, RunStatus),
}

pub(crate) const ONE_RUNNING_RUN: &str = "a session has at most one running run";
pub(crate) const EPOCHS_GROW: &str = "each acquired lease has a newer epoch than all before";
pub(crate) const ONLY_THE_HOLDER_COMMITS: &str = "only the holder of the newest lease commits";
pub(crate) const TERMINAL_STATES_STAY: &str = "a terminal state never changes";
pub(crate) const IN_ORDER_OF_ACCEPTANCE: &str = "runs start in the order of acceptance";
pub(crate) const EVERY_RUN_CAN_BE_FINISHED: &str = "a new process can finish every accepted run";

impl Model for Lifecycle {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds.owners, self.bounds.sessions)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.sessions.iter().any(|session| session.violation.is_some()) {
            return;
        }
        for process in &world.processes {
            Self::environment_actions(process, actions);
            if process.status == ProcessStatus::Works {
                self.process_actions(world, process, actions);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let next = match action {
            Action::Commit { by, session, change } => self.commit(world, by, session, change)?,
            action => self.apply(world.clone(), action),
        };
        if next == *world {
            return None;
        }
        let next = next.canonical();
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn never(world: &World, violation: Violation) -> bool {
            world.sessions.iter().all(|session| session.violation != Some(violation))
        }
        fn any_run(world: &World, is: fn(&Run) -> bool) -> bool {
            world.sessions.iter().flat_map(|session| &session.runs).any(is)
        }
        vec![
            Property::always(ONE_RUNNING_RUN, |_, world: &World| {
                world.sessions.iter().all(|session| session.running().count() <= 1)
                    && never(world, Violation::WrongLease)
            }),
            Property::always(EPOCHS_GROW, |_, world| never(world, Violation::EpochNotNew)),
            Property::always(ONLY_THE_HOLDER_COMMITS, |_, world| never(world, Violation::CommitOfNoHolder)),
            Property::always(TERMINAL_STATES_STAY, |_, world| never(world, Violation::TerminalChanged)),
            Property::always(IN_ORDER_OF_ACCEPTANCE, |_, world| never(world, Violation::OutOfOrder)),
            Property::always(EVERY_RUN_CAN_BE_FINISHED, Self::recovers),
            // The interesting situations are reachable.
            Property::sometimes("a process continues with a lost lease", |_, world: &World| {
                let is_lost = |process: &ModelProcess, lease: &HeldLease| {
                    let run = &world.sessions[lease.session].runs[lease.run].state;
                    run.status == RunStatus::Running && run.owner != process.owner
                };
                let works = world.processes.iter().filter(|process| process.status == ProcessStatus::Works);
                works.into_iter().any(|process| process.leases.iter().any(|lease| is_lost(process, lease)))
            }),
            Property::sometimes("an answer continues its run", |_, world| {
                any_run(world, |run| run.has_asked && run.state.status == RunStatus::Done)
            }),
            Property::sometimes("an answer is queued", |_, world| {
                any_run(world, |run| run.has_asked && run.state.status == RunStatus::Queued)
            }),
            Property::sometimes("a question is superseded or withdrawn", |_, world| {
                any_run(world, |run| run.has_asked && run.state.status == RunStatus::Cancelled)
            }),
            Property::sometimes("all owners are dead", |_, world: &World| {
                world.processes.iter().all(|process| process.status == ProcessStatus::Dead)
            }),
        ]
    }
}

impl Lifecycle {
    /// Actions of the environment on a process.
    fn environment_actions(process: &ModelProcess, actions: &mut Vec<Action>) {
        let owner = process.owner;
        match process.status {
            ProcessStatus::Works => actions.extend([Action::Pause(owner), Action::Heartbeat(owner)]),
            ProcessStatus::Paused => actions.push(Action::Continue(owner)),
            ProcessStatus::Dead => return actions.push(Action::Restart(owner)),
        }
        actions.extend([Action::Kill(owner), Action::Expire(owner)]);
    }

    /// Everything that a working process may attempt, admissible or not.
    fn process_actions(&self, world: &World, process: &ModelProcess, actions: &mut Vec<Action>) {
        let by = process.owner;
        actions.push(Action::TakeOver { by, from: DEAD });
        let silent = world.processes.iter().filter(|other| other.is_silent && other.owner != by);
        actions.extend(silent.map(|other| Action::TakeOver { by, from: other.owner }));
        let mut commit = |session, change| actions.push(Action::Commit { by, session, change });
        for (session, stored) in world.sessions.iter().enumerate() {
            for run in 0..=stored.runs.len().min(self.bounds.runs - 1) {
                commit(session, Change::Enqueue(run));
                commit(session, Change::Start(run));
                if self.bounds.late_results {
                    commit(session, Change::StartWithResult(run));
                }
                commit(session, Change::Withdraw(run));
                commit(session, Change::Cancel(run));
            }
        }
        for lease in &process.leases {
            commit(lease.session, Change::Step(*lease));
            commit(lease.session, Change::Finish(*lease, RunStatus::Done));
            commit(lease.session, Change::Finish(*lease, RunStatus::Waiting));
        }
    }

    fn apply(&self, mut world: World, action: Action) -> World {
        match action {
            Action::Kill(owner) => world.kill(owner),
            Action::Pause(owner) => world.update(owner, |process| process.status = ProcessStatus::Paused),
            Action::Continue(owner) | Action::Restart(owner) => {
                world.update(owner, |process| process.status = ProcessStatus::Works);
            }
            Action::Heartbeat(owner) => world.update(owner, |process| process.is_silent = false),
            Action::Expire(owner) => world.update(owner, |process| process.is_silent = true),
            Action::TakeOver { by, from } => self.take_over(&mut world, by, from),
            Action::Commit { .. } => {}
        }
        world
    }

    fn take_over(&self, world: &mut World, by: OwnerId, from: OwnerId) {
        for session in 0..world.sessions.len() {
            if let Some((run, epoch)) = world.sessions[session].take_over(&self.rules, by, from) {
                world.update(by, |process| process.leases.push(HeldLease { session, run, epoch }));
            }
        }
    }

    /// The state after a commit; `None` if the commit is refused.
    fn commit(&self, world: &World, by: OwnerId, session: usize, change: Change) -> Option<World> {
        let mut stored = world.sessions[session].clone();
        let lease = self.commit_to(&mut stored, by, change).ok()?;
        let mut next = world.clone();
        next.sessions[session] = stored;
        if let Some((run, epoch)) = lease {
            next.update(by, |process| process.leases.push(HeldLease { session, run, epoch }));
        }
        Some(next)
    }

    /// Returns the run and the epoch of an acquired lease.
    fn commit_to(
        &self,
        stored: &mut Session,
        by: OwnerId,
        change: Change,
    ) -> Result<Option<(usize, u64)>, TransitionRefusal> {
        let rules = &self.rules;
        match change {
            Change::Start(run) => return Ok(Some((run, stored.start(rules, by, run)?))),
            Change::StartWithResult(run) => {
                return Ok(Some((run, stored.start_with_result(rules, by, run)?)));
            }
            Change::Enqueue(run) => stored.enqueue(rules, by, run)?,
            Change::Withdraw(run) => stored.withdraw(rules, by, run)?,
            Change::Cancel(run) => stored.cancel(rules, run)?,
            Change::Step(lease) => stored.step(rules, by, lease)?,
            // Each run asks once, so that the state space is finite.
            Change::Finish(lease, RunStatus::Waiting) if stored.runs[lease.run].has_asked => {
                return Err(TransitionRefusal::Moved);
            }
            Change::Finish(lease, to) => stored.finish(rules, (by, lease), to)?,
        }
        Ok(None)
    }

    /// Whether a new process can finish all open runs if every owner dies.
    fn recovers(&self, world: &World) -> bool {
        let recovers = |session: &Session| session.clone().recovers(&self.rules);
        world.sessions.iter().all(|session| session.violation.is_some() || recovers(session))
    }
}
