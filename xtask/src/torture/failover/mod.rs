//! The failover test: once in every round a server is stopped (SIGSTOP) in the middle of its work, and continued (SIGCONT)
//! after another server has taken its runs over.
//!
//! 1. Preparing: one server gets a message for each [`StopPoint`], each in its own session. A reader of each run, and the
//!    file that the held tools write, show when the stop points are reached.
//! 2. Stopped: the server is stopped in all of them at once, and the stored events must confirm them. A second
//!    server, which the failover test keeps running, gets a message behind each run and a reader of each run. After ten
//!    seconds without a heartbeat the second server, or the third one, must take the runs over and answer them.
//! 3. Resumed: the server continues and tries to store what it was working on. Its commits must be refused, because the epoch of
//!    each session has changed. Its readers must find the rest of their runs in the log.
//!
//! An attempt whose stop points do not hold at the moment of the stop is abandoned and repeated; its messages are verified like all
//! others. [`verify`](super::verify) has the rules for what must be stored afterwards.

mod observer;
mod request;
mod stop_point;

pub(super) use stop_point::StopPoint;

use super::{
    fleet::Fleet,
    journal::{Moment, ServerName, Stop},
    stage::count,
};
use crate::{
    Result,
    harness::{interrupt, machine::Server, script::Kind},
};
use observer::Observer;
use request::{Sent, accepts_writes, create_session, is_done, send, session_events};
use std::{
    mem,
    net::SocketAddr,
    time::{Duration, Instant},
};
use stop_point::Times;

/// Time from the beginning of the round, when clients are active.
const BEGINS_AFTER: Duration = Duration::from_secs(2);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest time to reach all stop points: they take two seconds, or much more on a busy machine.
const PREPARATION: Duration = Duration::from_secs(9);
/// The failover test fails after this time without a stop.
const ATTEMPTS: Duration = Duration::from_mins(3);
/// The longest time to take the runs over and answer them: ten seconds without a heartbeat, observed every two seconds, and the
/// answers. Much more on a busy machine.
const TAKEOVER: Duration = Duration::from_mins(1);
/// The longest time until the continued server has released its runs: it sends a heartbeat every two seconds.
const GIVING_UP: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);
/// How long the continued server runs after it has released its runs.
const AFTERWARDS: Duration = Duration::from_millis(500);

pub(super) struct FailoverTest {
    phase: Phase,
    /// Number of preparations.
    attempts: u64,
    gives_up: Instant,
}

enum Phase {
    Planned {
        begins: Instant,
    },
    Preparing(Preparing),
    Stopped(Stopped),
    Resumed(Resumed),
    /// A server was stopped and continued, or the failover test has failed.
    Over,
}

/// The slots of two servers that are not killed during the failover test.
#[derive(Clone, Copy)]
struct Slots {
    stopped: usize,
    second: usize,
}

/// A run at one stop point, and its reader on the server that is stopped.
struct StoppedRun {
    stop_point: StopPoint,
    sent: Sent,
    observer: Observer,
}

struct Preparing {
    slots: Slots,
    since: Instant,
    cases: Vec<StoppedRun>,
}

struct Stopped {
    slots: Slots,
    at: Moment,
    since: Instant,
    polled: Instant,
    cases: Vec<StoppedRun>,
    /// The messages that the second server has accepted behind the runs.
    behind: Vec<Sent>,
    /// The readers of the runs on the second server.
    second_observers: Vec<Observer>,
}

struct Resumed {
    slots: Slots,
    since: Instant,
    cases: Vec<StoppedRun>,
}

impl FailoverTest {
    pub(super) fn new() -> Self {
        let (begins, gives_up) = (Instant::now() + BEGINS_AFTER, Instant::now() + ATTEMPTS);
        Self { phase: Phase::Planned { begins }, attempts: 0, gives_up }
    }

    /// Whether servers are reserved for the failover test: two of them must be running, and the disk must work.
    pub(super) fn is_active(&self) -> bool {
        match self.phase {
            Phase::Preparing(_) | Phase::Stopped(_) | Phase::Resumed(_) => true,
            Phase::Planned { .. } | Phase::Over => false,
        }
    }

    /// Whether the failover test of this round has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The slot of the server that is stopped.
    pub(super) fn stopped_slot(&self) -> Option<usize> {
        match &self.phase {
            Phase::Stopped(stopped) => Some(stopped.slots.stopped),
            Phase::Planned { .. } | Phase::Preparing(_) | Phase::Resumed(_) | Phase::Over => None,
        }
    }

    /// Advances the failover test. Blocks for a few requests at most.
    pub(super) fn tick(fleet: &mut Fleet<'_>) -> Result<()> {
        let before = fleet.failover_mut().stopped_slot();
        let phase = mem::replace(&mut fleet.failover_mut().phase, Phase::Over);
        let next = match phase {
            Phase::Planned { begins } if Instant::now() >= begins => begin(fleet)?,
            Phase::Preparing(preparing) => preparing.advance(fleet)?,
            Phase::Stopped(stopped) => stopped.advance(fleet)?,
            Phase::Resumed(resumed) => resumed.advance(fleet)?,
            phase @ (Phase::Planned { .. } | Phase::Over) => phase,
        };
        fleet.failover_mut().phase = next;
        if fleet.failover_mut().stopped_slot() != before {
            fleet.announce();
        }
        Ok(())
    }
}

/// Chooses two servers that listen and leads the first one to the first stop point.
fn begin(fleet: &mut Fleet<'_>) -> Result<Phase> {
    if Instant::now() >= fleet.failover_mut().gives_up {
        let attempts = fleet.failover_mut().attempts;
        let problem = format!("no server was stopped at all stop points at once in {attempts} attempts");
        fleet.stage.journal.problem(problem);
        return Ok(Phase::Over);
    }
    let mut up = (0..fleet.slots.len()).filter(|slot| fleet.slots[*slot].server().is_some());
    let (Some(stopped), Some(second)) = (up.next(), up.next()) else {
        return Ok(Phase::Planned { begins: Instant::now() });
    };
    let slots = Slots { stopped, second };
    fleet.failover_mut().attempts += 1;
    for slot in [stopped, second] {
        fleet.slots[slot].is_spared = true;
    }
    fleet.clear_faults()?;
    fleet.stage.machine.hold_tools()?;
    Preparing { slots, since: Instant::now(), cases: Vec::new() }.add_case(fleet)
}

fn server_in<'a>(fleet: &'a Fleet<'_>, slot: usize) -> Result<(&'a Server, ServerName)> {
    Ok(fleet.slots[slot].server().ok_or("a server that the failover test relies on is gone")?)
}

fn address_in(fleet: &Fleet<'_>, slot: usize) -> Result<(SocketAddr, ServerName)> {
    server_in(fleet, slot).map(|(server, name)| (server.address, name))
}

/// Continues the stopped server, lets the tools return and the servers be killed again, and records what the readers received.
fn leave<'a>(
    fleet: &mut Fleet<'_>,
    slots: Slots,
    observers: impl IntoIterator<Item = &'a mut Observer>,
) -> Result<()> {
    server_in(fleet, slots.stopped)?.0.process.resume();
    fleet.stage.machine.release_tools()?;
    for observer in observers {
        observer.update(fleet.stage);
        let reading = mem::take(&mut observer.reading);
        fleet.stage.journal.with(|record| record.readings.push(reading));
    }
    fleet.slots[slots.stopped].spare_for(AFTERWARDS);
    fleet.slots[slots.second].is_spared = false;
    Ok(())
}

fn observers(cases: &mut [StoppedRun]) -> impl Iterator<Item = &mut Observer> {
    cases.iter_mut().map(|case| &mut case.observer)
}

impl Preparing {
    /// Waits for one stop point after the other, then stops the server.
    fn advance(mut self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        observers(&mut self.cases).for_each(|observer| observer.update(fleet.stage));
        let is_over =
            |case: &StoppedRun| case.stop_point.is_over(&case.observer.reading) || case.observer.is_ended();
        let is_late = self.since.elapsed() > PREPARATION || interrupt::is_set();
        if is_late || self.cases.iter().any(is_over) {
            return self.abandon(fleet);
        }
        let executed = fleet.stage.machine.held_calls()?;
        let is_reached = |StoppedRun { stop_point, sent, observer }: &StoppedRun| {
            let times = Times { now: fleet.stage.now(), accepted: sent.accepted };
            observer.is_open() && stop_point.is_reached(&observer.reading, &executed, times)
        };
        if !self.cases.iter().all(is_reached) {
            return Ok(Phase::Preparing(self));
        }
        if self.cases.len() < StopPoint::ALL.len() { self.add_case(fleet) } else { self.stop(fleet) }
    }

    /// Sends the message that leads to the next stop point.
    fn add_case(mut self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        let stop_point = StopPoint::ALL[self.cases.len()];
        let attempt = fleet.failover_mut().attempts;
        let session = fleet.stage.round.session(&format!("stopped{attempt}-{}", stop_point.name()));
        let server = address_in(fleet, self.slots.stopped)?;
        let is_created = create_session(server.0, &session);
        let sent = is_created.then(|| send(fleet.stage, server, &session, stop_point.kind())).flatten();
        let Some(sent) = sent else { return self.abandon(fleet) };
        let observer = Observer::new(server, &session, &sent.run);
        self.cases.push(StoppedRun { stop_point, sent, observer });
        Ok(Phase::Preparing(self))
    }

    fn stop(self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        let (server, name) = server_in(fleet, self.slots.stopped)?;
        let (second, _) = address_in(fleet, self.slots.second)?;
        let at = fleet.stage.now();
        fleet.stage.journal.with(|record| record.ends.push((name, at)));
        server.process.pause();
        if !accepts_writes(second, &fleet.stage.round.session("probe")) {
            // It was stopped in a transaction. If the stop points still hold, it is stopped again at once.
            server.process.resume();
            return Ok(Phase::Preparing(self));
        }
        let is_stored = |StoppedRun { stop_point, sent, .. }: &StoppedRun| {
            session_events(second, &sent.session).is_some_and(|events| stop_point.is_stored(&events))
        };
        if !self.cases.iter().all(is_stored) {
            return self.abandon(fleet);
        }
        Stopped::new(fleet, (self.slots, at), self.cases).map(Phase::Stopped)
    }

    fn abandon(mut self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        leave(fleet, self.slots, observers(&mut self.cases))?;
        Ok(Phase::Planned { begins: Instant::now() + PAUSE })
    }
}

impl Stopped {
    fn new(fleet: &mut Fleet<'_>, (slots, at): (Slots, Moment), cases: Vec<StoppedRun>) -> Result<Self> {
        // The stopped server tries to store the results of the tools when it continues.
        fleet.stage.machine.release_tools()?;
        let second = address_in(fleet, slots.second)?;
        let (mut behind, mut second_observers) = (Vec::new(), Vec::new());
        for StoppedRun { stop_point, sent, .. } in &cases {
            count(fleet.stage.tally.stops_in(*stop_point));
            behind.extend(send(fleet.stage, second, &sent.session, Kind::Note));
            second_observers.push(Observer::new(second, &sent.session, &sent.run));
        }
        let (since, polled) = (Instant::now(), Instant::now());
        Ok(Self { slots, at, since, polled, cases, behind, second_observers })
    }

    /// Continues the server when all messages are answered, or when that has taken too long.
    fn advance(mut self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        if self.polled.elapsed() < POLL {
            return Ok(Phase::Stopped(self));
        }
        self.polled = Instant::now();
        self.second_observers.iter_mut().for_each(|observer| observer.update(fleet.stage));
        let (second, _) = address_in(fleet, self.slots.second)?;
        let sent = self.cases.iter().map(|case| &case.sent).chain(&self.behind);
        let open: Vec<&str> =
            sent.filter(|sent| !is_done(second, sent)).map(|sent| sent.run.as_str()).collect();
        let is_answered = open.is_empty() && self.second_observers.iter().all(Observer::is_ended);
        let is_late = self.since.elapsed() > TAKEOVER;
        if !is_answered && interrupt::is_set() {
            // The runs continue on the stopped server, or on another one: both are right.
            leave(fleet, self.slots, observers(&mut self.cases).chain(&mut self.second_observers))?;
            return Ok(Phase::Over);
        }
        if !is_answered && !is_late {
            return Ok(Phase::Stopped(self));
        }
        if !open.is_empty() && is_late {
            let seconds = TAKEOVER.as_secs();
            let problem = format!("runs {open:?} are not done {seconds} s after their server was stopped");
            fleet.stage.journal.problem(problem);
        }
        self.resume(fleet, is_answered)
    }

    fn resume(self, fleet: &mut Fleet<'_>, is_answered: bool) -> Result<Phase> {
        let Self { slots, at, cases, second_observers, .. } = self;
        let (server, name) = server_in(fleet, slots.stopped)?;
        let (second, _) = address_in(fleet, slots.second)?;
        for StoppedRun { stop_point, sent, .. } in &cases {
            let events = if is_answered { session_events(second, &sent.session) } else { None };
            if is_answered && events.is_none() {
                fleet.stage.journal.problem(format!("session {} cannot be read", sent.session));
            }
            let (stop_point, Sent { session, token, run, .. }) = (*stop_point, sent.clone());
            let stop = Stop { point: stop_point, session, token, run, server: name, at, events };
            fleet.stage.journal.with(|record| record.stops.push(stop));
        }
        server.process.resume();
        for observer in second_observers {
            observer.problem().into_iter().for_each(|problem| fleet.stage.journal.problem(problem));
            fleet.stage.journal.with(|record| record.readings.push(observer.reading));
        }
        Ok(Phase::Resumed(Resumed { slots, since: Instant::now(), cases }))
    }
}

impl Resumed {
    /// Ends the failover test when the readers on the continued server have received the end of their runs.
    fn advance(mut self, fleet: &mut Fleet<'_>) -> Result<Phase> {
        observers(&mut self.cases).for_each(|observer| observer.update(fleet.stage));
        let is_ended = self.cases.iter().all(|case| case.observer.is_ended());
        let is_late = self.since.elapsed() > GIVING_UP;
        if !is_ended && !is_late && !interrupt::is_set() {
            return Ok(Phase::Resumed(self));
        }
        if !interrupt::is_set() {
            let problems = self.cases.iter().filter_map(|case| case.observer.problem());
            problems.for_each(|problem| fleet.stage.journal.problem(problem));
        }
        leave(fleet, self.slots, observers(&mut self.cases))?;
        Ok(Phase::Over)
    }
}
