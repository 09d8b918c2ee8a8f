//! One cell of the matrix: store, kind of run, queue length, fault.

use failpoint::{FailAction, FailPlan, Point};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

pub(crate) const QUEUES: [usize; 3] = [0, 1, 20];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum StoreKind {
    Sqlite,
    Memory,
}

impl StoreKind {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Memory];

    pub(crate) fn faults(self) -> &'static [Fault] {
        match self {
            Self::Sqlite => &[Fault::Abort, Fault::Error, Fault::Delay, Fault::DiskFull],
            Self::Memory => &[Fault::Error, Fault::Delay],
        }
    }

    /// Whether a point can be reached with this store: only SQLite has a writer.
    pub(crate) fn has(self, point: Point) -> bool {
        self == Self::Sqlite
            || !matches!(point, Point::BeforeBegin | Point::BeforeCommit | Point::AfterCommit)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Scenario {
    /// A streamed answer.
    Text,
    Tool,
    /// Three parallel calls: one reads, one is idempotent, one runs at most once.
    ParallelTools,
    /// A sub-agent answers.
    Transfer,
    /// A question to a person, then the answer.
    Confirmation,
    /// A question to a person, then another message.
    Superseded,
    /// A call that is acknowledged; its result arrives after all other messages.
    LongRunning,
    /// A run is cancelled while it streams, another one while it is queued.
    Cancel,
}

impl Scenario {
    pub(crate) const ALL: [Self; 8] = [
        Self::Text,
        Self::Tool,
        Self::ParallelTools,
        Self::Transfer,
        Self::Confirmation,
        Self::Superseded,
        Self::LongRunning,
        Self::Cancel,
    ];
}

/// The process in which the fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FaultStage {
    /// The process that accepts the messages.
    Fresh,
    /// The process that resumes after the first aborted within a run.
    Recovery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Fault {
    Abort,
    Error,
    Delay,
    DiskFull,
}

impl Fault {
    pub(crate) fn can_happen_at(self, point: Point) -> bool {
        match self {
            Self::Abort | Self::Delay => true,
            Self::Error => point.site().can_fail(),
            Self::DiskFull => point.site().can_be_full(),
        }
    }
}

/// The clock of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Clock {
    /// One thread; virtual time passes hundreds of times faster while it is idle.
    Virtual,
    /// Real time on a multi-threaded runtime.
    Real,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(crate) store: StoreKind,
    pub(crate) stage: FaultStage,
    pub(crate) scenario: Scenario,
    pub(crate) queue: usize,
    pub(crate) clock: Clock,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, stage, scenario, queue, clock } = self;
        write!(f, "{store:?} {stage:?} {scenario:?} queue {queue} {clock:?}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Trial {
    pub(crate) point: Point,
    pub(crate) fault: Fault,
    pub(crate) nth: u64,
}

impl Trial {
    pub(crate) fn plan(self) -> FailPlan {
        let Self { point, fault, nth } = self;
        let delay =
            if point.site().is_blocking() { Duration::from_millis(5) } else { Duration::from_secs(3) };
        let (action, times) = match fault {
            Fault::Abort => (FailAction::Abort, 1),
            Fault::Error => (FailAction::Fail, 1),
            Fault::Delay => (FailAction::Delay(delay), 1),
            // A disk stays full for a while.
            Fault::DiskFull => (FailAction::FillDisk, 3),
        };
        FailPlan { point, nth, times, action }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} #{}", self.fault, self.point, self.nth)
    }
}

impl Serialize for Trial {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.point.name(), self.fault, self.nth).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Trial {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (point, fault, nth): (String, Fault, u64) = Deserialize::deserialize(deserializer)?;
        Ok(Self { point: point.parse().map_err(serde::de::Error::custom)?, fault, nth })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) setting: Setting,
    /// A fault that occurs before, in the same process.
    #[serde(default)]
    pub(crate) earlier: Option<Trial>,
    /// `None` for a case without a fault.
    pub(crate) trial: Option<Trial>,
}

impl Case {
    pub(crate) fn new(setting: Setting, trial: Trial) -> Self {
        Self { setting, earlier: None, trial: Some(trial) }
    }

    pub(crate) fn without_fault(setting: Setting) -> Self {
        Self { setting, earlier: None, trial: None }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.setting)?;
        self.earlier.map_or(Ok(()), |trial| write!(f, ", {trial}"))?;
        self.trial.map_or(Ok(()), |trial| write!(f, ", {trial}"))
    }
}
