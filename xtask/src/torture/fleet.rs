//! The servers: several at a time on one database, killed one by one and all at once, while they start and while they work. The
//! same loop injects faults: periods in which syncs of the database fail or are slow.

use super::{
    failover::FailoverTest,
    journal::{ServerName, Window},
    plan::{FaultPeriod, KillTime, ServerPlan},
    stage::{Stage, Target, count},
};
use crate::{
    Result,
    harness::{
        machine::{Server, Started, Starting},
        preload::{Control, SyncFaults},
        random::Random,
    },
};
use std::{
    mem,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

pub(super) const SERVERS: usize = 3;
const TICK: Duration = Duration::from_millis(3);
/// How long clients may take to finish their runs.
const DRAIN: Duration = Duration::from_mins(4);

/// The end condition of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// Kills in all rounds.
    pub(super) kills: u64,
    pub(super) time: Instant,
    /// Whether the round continues until its failover test is over.
    pub(super) needs_failover: bool,
}

enum State {
    Down { until: Instant },
    Starting { starting: Starting, begun: Instant },
    Up { server: Server, since: Instant },
}

pub(super) struct Slot {
    name: ServerName,
    state: State,
    plan: ServerPlan,
    /// A failover test relies on the server: it is not killed.
    pub(super) is_spared: bool,
}

impl Slot {
    pub(super) fn server(&self) -> Option<(&Server, ServerName)> {
        match &self.state {
            State::Up { server, .. } => Some((server, self.name)),
            State::Down { .. } | State::Starting { .. } => None,
        }
    }

    fn is_due(&self) -> bool {
        if self.is_spared {
            return false;
        }
        match (&self.state, self.plan.kill) {
            (State::Down { .. }, _) | (State::Starting { .. }, KillTime::DuringWork(_)) => false,
            (State::Starting { begun, .. }, KillTime::DuringStart(after)) => begun.elapsed() >= after,
            (State::Up { .. }, KillTime::DuringStart(_)) => true,
            (State::Up { since, .. }, KillTime::DuringWork(after)) => since.elapsed() >= after,
        }
    }

    /// Allows the server to be killed again, after this time.
    pub(super) fn spare_for(&mut self, time: Duration) {
        self.is_spared = false;
        self.plan.kill = KillTime::DuringWork(time);
        if let State::Up { since, .. } = &mut self.state {
            *since = Instant::now();
        }
    }
}

pub(super) struct Fleet<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) slots: Vec<Slot>,
    plans: Random,
    faults: Random,
    faults_until: Instant,
    control: Option<&'a Control>,
    failover: FailoverTest,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(stage: &'a Stage<'a>, control: Option<&'a Control>) -> Self {
        let mut plans = stage.round.random("lives");
        let slots = (0..SERVERS).map(|slot| Slot {
            name: ServerName { slot, spawn: 0 },
            state: State::Down { until: Instant::now() },
            plan: ServerPlan::random(&mut plans),
            is_spared: false,
        });
        let (slots, faults) = (slots.collect(), stage.round.random("faults"));
        let faults_until = Instant::now() + Duration::from_secs(1);
        Self { stage, slots, plans, faults, faults_until, control, failover: FailoverTest::new() }
    }

    /// Kills servers until the round ends, waits for the clients, and kills the rest.
    pub(super) fn run(mut self, until: Until) -> Result<()> {
        let is_enough = |fleet: &Self| {
            let kills = fleet.stage.tally.kills.load(Ordering::Relaxed);
            let is_killed = kills >= until.kills && (fleet.failover.is_over() || !until.needs_failover);
            (is_killed || Instant::now() >= until.time || fleet.stage.is_closing())
                && !fleet.failover.is_active()
        };
        while !is_enough(&self) {
            self.change_faults()?;
            self.kill_due_servers();
            self.start_servers()?;
            FailoverTest::tick(&mut self)?;
            thread::sleep(TICK);
        }
        self.stage.close();
        self.clear_faults()?;
        let deadline = Instant::now() + DRAIN;
        while self.stage.is_busy() && Instant::now() < deadline {
            self.start_servers()?;
            thread::sleep(TICK);
        }
        if self.stage.is_busy() {
            self.stage.journal.problem(format!("clients have not finished after {} s", DRAIN.as_secs()));
        }
        for slot in 0..self.slots.len() {
            self.kill(slot);
        }
        Ok(())
    }

    pub(super) fn failover_mut(&mut self) -> &mut FailoverTest {
        &mut self.failover
    }

    fn kill_due_servers(&mut self) {
        let due: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_due()).collect();
        for slot in due {
            let kills_all = self.slots[slot].plan.kills_all && !self.failover.is_active();
            self.kill(slot);
            if kills_all {
                for other in 0..self.slots.len() {
                    self.kill(other);
                }
            }
        }
    }

    /// Sends SIGKILL, unless the server is down.
    fn kill(&mut self, slot: usize) {
        let plan = ServerPlan::random(&mut self.plans);
        let slot = &mut self.slots[slot];
        let pause = mem::replace(&mut slot.plan, plan).pause;
        let down = State::Down { until: Instant::now() + pause };
        match mem::replace(&mut slot.state, down) {
            State::Down { until } => slot.state = State::Down { until },
            State::Starting { mut starting, .. } => {
                count(&self.stage.tally.kills);
                starting.process.kill();
            }
            State::Up { mut server, .. } => {
                count(&self.stage.tally.kills);
                let (name, now) = (slot.name, self.stage.now());
                self.stage.journal.with(|record| record.ends.push((name, now)));
                server.process.kill();
            }
        }
        self.announce();
    }

    fn start_servers(&mut self) -> Result<()> {
        for slot in 0..self.slots.len() {
            self.start(slot)?;
        }
        Ok(())
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let slot = &mut self.slots[number];
        let now = Instant::now();
        let down = State::Down { until: now + Duration::from_millis(50) };
        slot.state = match mem::replace(&mut slot.state, down) {
            State::Down { until } if until <= now => {
                slot.name.spawn += 1;
                let starting = self.stage.machine.spawn_server(&format!("server-{number}"))?;
                State::Starting { starting, begun: now }
            }
            State::Starting { starting, begun } => match starting.poll() {
                Ok(Started::Listens(server)) => State::Up { server, since: now },
                Ok(Started::Not(starting)) => State::Starting { starting, begun },
                Err(error) => {
                    self.failed_to_start(error.to_string());
                    return Ok(());
                }
            },
            state @ (State::Up { .. } | State::Down { .. }) => state,
        };
        if matches!(slot.state, State::Up { since, .. } if since == now) {
            self.announce();
        }
        Ok(())
    }

    /// A start may fail while faults are injected, and is repeated.
    fn failed_to_start(&self, error: String) {
        let recently = self.stage.now().saturating_sub(Duration::from_secs(5));
        if !self.stage.had_faults_since(recently) {
            self.stage.journal.problem(error);
        }
    }

    /// Publishes the addresses of the servers that listen.
    pub(super) fn announce(&self) {
        let targets = self.slots.iter().filter_map(Slot::server);
        let paused = self.failover.stopped_slot();
        let target = |(server, name): (&Server, ServerName)| Target {
            name,
            address: server.address,
            is_paused: paused == Some(name.slot),
        };
        self.stage.set_targets(targets.map(target).collect());
    }

    fn change_faults(&mut self) -> Result<()> {
        // A failover test expects a takeover after ten seconds without a heartbeat, counted while the store accepts writes.
        if self.failover.is_active() {
            return Ok(());
        }
        if Instant::now() < self.faults_until {
            return Ok(());
        }
        let FaultPeriod { faults, lasts } = FaultPeriod::random(&mut self.faults);
        self.faults_until = Instant::now() + lasts;
        self.set_faults(faults)
    }

    /// Ends the injected faults. During a failover test no others begin.
    pub(super) fn clear_faults(&self) -> Result<()> {
        self.set_faults(SyncFaults::default())
    }

    fn set_faults(&self, faults: SyncFaults) -> Result<()> {
        let Some(control) = self.control else { return Ok(()) };
        let now = self.stage.now();
        // The recorded window contains every fault.
        if !faults.is_none() {
            self.stage.journal.with(|record| record.windows.push(Window { from: now, to: None }));
        }
        control.set(faults)?;
        let is_over = |window: &&mut Window| window.to.is_none() && (faults.is_none() || window.from < now);
        self.stage.journal.with(|record| {
            record.windows.iter_mut().filter(is_over).for_each(|window| window.to = Some(now));
        });
        Ok(())
    }
}
