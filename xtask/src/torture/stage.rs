//! The state that the threads of one round share: the servers that listen, the journal, and whether the round continues.

use super::{
    failover::StopPoint,
    journal::{Journal, Moment, ServerName},
};
use crate::harness::{interrupt, machine::Machine, random::Random};
use lock::LockExt;
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Errors are excused for this time after an injected fault.
const AFTERMATH: Duration = Duration::from_secs(3);

/// A server that listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) name: ServerName,
    pub(super) address: SocketAddr,
    /// It is stopped: requests time out.
    pub(super) is_paused: bool,
}

/// Counters of all rounds.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) kills: AtomicU64,
    /// Servers that were stopped, by [`StopPoint`].
    stops: [AtomicU64; StopPoint::ALL.len()],
    pub(super) messages: AtomicU64,
    pub(super) events: AtomicU64,
}

impl Tally {
    pub(super) fn stops_in(&self, stop_point: StopPoint) -> &AtomicU64 {
        &self.stops[stop_point as usize]
    }

    pub(super) fn line(&self) -> String {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let stops = StopPoint::ALL
            .map(|stop_point| format!("{} {}", count(self.stops_in(stop_point)), stop_point.name()))
            .join(", ");
        format!(
            "{} kills, stops ({stops}), {} acknowledged events, {} messages",
            count(&self.kills),
            count(&self.events),
            count(&self.messages)
        )
    }
}

pub(super) fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

/// A round, and the seed of its test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) seed: u64,
    pub(super) number: u64,
}

impl Round {
    pub(super) fn random(self, part: &str) -> Random {
        Random::of(self.seed, &format!("round {} {part}", self.number))
    }

    pub(super) fn session(self, name: &str) -> String {
        format!("r{}-{name}", self.number)
    }
}

/// The clock of the test.
#[derive(Debug)]
pub(super) enum Clock {
    Time(Instant),
    /// The length of a trace, a byte for a nanosecond: operations that were traced before an acknowledgement have an earlier time.
    Trace(PathBuf),
}

impl Clock {
    fn now(&self) -> Moment {
        match self {
            Self::Time(begun) => begun.elapsed(),
            Self::Trace(path) => Moment::from_nanos(fs::metadata(path).map_or(0, |trace| trace.len())),
        }
    }
}

#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) machine: &'a Machine,
    pub(super) round: Round,
    pub(super) tally: &'a Tally,
    pub(super) journal: Journal,
    clock: Clock,
    targets: Mutex<Vec<Target>>,
    is_closing: AtomicBool,
    is_abandoned: AtomicBool,
    /// Threads that still send or read.
    busy: AtomicUsize,
}

impl<'a> Stage<'a> {
    pub(super) fn new(machine: &'a Machine, round: Round, tally: &'a Tally, clock: Clock) -> Self {
        Self {
            machine,
            round,
            tally,
            journal: Journal::default(),
            clock,
            targets: Mutex::default(),
            is_closing: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(super) fn set_targets(&self, targets: Vec<Target>) {
        *self.targets.locked() = targets;
    }

    /// A random server that listens, rarely one that is stopped. It may have been killed a moment ago.
    pub(super) fn target(&self, random: &mut Random) -> Option<Target> {
        let targets = self.targets.locked();
        let first = random.pick(&targets)?;
        if first.is_paused && !random.chance(100) { random.pick(&targets) } else { Some(first) }
    }

    /// Clients send no further messages, and finish their runs.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed) || interrupt::is_set()
    }

    /// Clients send no further messages, and do not wait for their runs.
    pub(super) fn abandon(&self) {
        self.close();
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn leave(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) > 0
    }

    /// Whether faults were injected since that moment, or shortly before.
    pub(super) fn had_faults_since(&self, moment: Moment) -> bool {
        let (from, to) = (moment.saturating_sub(AFTERMATH), self.now());
        self.journal.with(|record| record.windows.iter().any(|window| window.overlaps(from, to)))
    }
}
