//! The plan of a round: the messages of each client, the kills of the servers and the faults of the disk. It depends on the seed
//! alone: the same seed gives the same plan.

use crate::harness::{preload::SyncFaults, random::Random, script::Kind};
use std::time::Duration;

/// Sessions that several clients and the terminals use at the same time.
pub(super) const SHARED_SESSIONS: u64 = 3;

/// The session that a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionChoice {
    /// Only this client writes to it.
    Own,
    Shared(u64),
}

/// The request that sends a message, and what the client does then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// `POST /run_sse`, and reads to the end.
    Stream,
    /// `POST …/runs`, and reads the run's events.
    Begin,
    /// `POST …/runs`, without reading the run.
    Leave,
    /// `POST /run`.
    Wait,
    /// Some `POST …/runs` one after the other: all but the first are queued.
    Burst(u64),
    /// `POST …/runs`, and cancels the run after this many milliseconds.
    Cancel(u64),
}

/// The next action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Send {
        session: SessionChoice,
        kind: Kind,
        delivery: Delivery,
        is_keyed: bool,
    },
    /// Sends an earlier request with its key again: the answer must be the same run.
    Repeat,
    /// Sends another message with an earlier key: it must be refused.
    Reuse,
}

/// The actions of one client, without end.
pub(super) struct Actions(Random);

impl Actions {
    pub(super) fn new(seed: u64, round: u64, client: u64) -> Self {
        Self(Random::of(seed, &format!("round {round} client {client}")))
    }
}

impl Iterator for Actions {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        let random = &mut self.0;
        let session = if random.chance(650) {
            SessionChoice::Own
        } else {
            SessionChoice::Shared(random.below(SHARED_SESSIONS))
        };
        let kind = Kind::random(random);
        let (number, is_keyed) = (random.below(1000), random.chance(800));
        let delivery = match number {
            0..250 => Delivery::Stream,
            250..450 => Delivery::Begin,
            450..550 => Delivery::Leave,
            550..750 => Delivery::Wait,
            750..820 => Delivery::Burst(random.between(3, 6)),
            820..900 => Delivery::Cancel(random.below(400)),
            900..960 => return Some(Action::Repeat),
            _ => return Some(Action::Reuse),
        };
        // Without a key a client does not learn the run of a request whose connection failed.
        let is_keyed =
            is_keyed || matches!(delivery, Delivery::Burst(_) | Delivery::Cancel(_) | Delivery::Leave);
        Some(Action::Send { session, kind, delivery, is_keyed })
    }
}

/// The time of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillTime {
    /// This long after its process was started, before it listens or shortly after.
    DuringStart(Duration),
    /// This long after it began to listen.
    DuringWork(Duration),
}

/// The plan of one server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerPlan {
    pub(super) kill: KillTime,
    /// All servers are killed with it: none survives to take its runs over.
    pub(super) kills_all: bool,
    /// Between the kill and the next start in the same slot.
    pub(super) pause: Duration,
}

impl ServerPlan {
    pub(super) fn random(random: &mut Random) -> Self {
        let millis = Duration::from_millis;
        let kill = match random.below(100) {
            0..20 => KillTime::DuringStart(Duration::from_micros(random.below(25_000))),
            20..75 => KillTime::DuringWork(millis(random.between(20, 900))),
            _ => KillTime::DuringWork(millis(random.between(900, 4_000))),
        };
        Self { kill, kills_all: random.chance(80), pause: millis(random.below(250)) }
    }
}

/// A period in which syncs of the database fail or are slow, or in which they work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultPeriod {
    pub(super) faults: SyncFaults,
    pub(super) lasts: Duration,
}

impl FaultPeriod {
    /// Failures last less than the ten seconds for which a turn retries a commit.
    pub(super) fn random(random: &mut Random) -> Self {
        let lasts = Duration::from_millis(random.between(500, 2_500));
        let faults = match random.below(100) {
            0..60 => SyncFaults::default(),
            60..75 => SyncFaults { failing: 0, slow: 300, delay_us: random.between(2_000, 60_000) },
            75..90 => SyncFaults { failing: random.between(20, 300), slow: 0, delay_us: 0 },
            90..97 => {
                let delay_us = random.between(1_000, 20_000);
                SyncFaults { failing: random.between(20, 200), slow: 200, delay_us }
            }
            _ => SyncFaults { failing: 1_000, slow: 0, delay_us: 0 },
        };
        Self { faults, lasts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(seed: u64, client: u64) -> Vec<Action> {
        Actions::new(seed, 0, client).take(2_000).collect()
    }

    #[test]
    fn same_seed_gives_the_same_plan_and_each_client_its_own() {
        assert_eq!(actions(1, 0), actions(1, 0));
        assert_ne!(actions(1, 0), actions(1, 1));
        assert_ne!(actions(1, 0), actions(2, 0));
    }

    #[test]
    fn all_ways_to_send_are_planned_and_bursts_and_cancelled_runs_have_keys() {
        let actions = actions(3, 0);
        let sends: Vec<(Delivery, bool)> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Send { delivery, is_keyed, .. } => Some((*delivery, *is_keyed)),
                Action::Repeat | Action::Reuse => None,
            })
            .collect();
        let has = |wanted: fn(&Delivery) -> bool| sends.iter().any(|(delivery, _)| wanted(delivery));
        assert!(
            has(|delivery| matches!(delivery, Delivery::Stream))
                && has(|delivery| matches!(delivery, Delivery::Begin))
        );
        assert!(
            has(|delivery| matches!(delivery, Delivery::Leave))
                && has(|delivery| matches!(delivery, Delivery::Wait))
        );
        assert!(
            has(|delivery| matches!(delivery, Delivery::Burst(_)))
                && has(|delivery| matches!(delivery, Delivery::Cancel(_)))
        );
        assert!(actions.contains(&Action::Repeat) && actions.contains(&Action::Reuse));
        assert!(sends.iter().any(|(_, is_keyed)| !is_keyed));
        let needs_key = |delivery: &Delivery| {
            matches!(delivery, Delivery::Burst(_) | Delivery::Cancel(_) | Delivery::Leave)
        };
        assert!(sends.iter().all(|(delivery, is_keyed)| *is_keyed || !needs_key(delivery)));
    }

    #[test]
    fn servers_are_killed_during_start_during_work_and_all_at_once() {
        let mut random = Random::new(1);
        let plans: Vec<ServerPlan> = (0..1_000).map(|_| ServerPlan::random(&mut random)).collect();
        assert!(plans.iter().any(|plan| matches!(plan.kill, KillTime::DuringStart(_))));
        assert!(plans.iter().any(|plan| matches!(plan.kill, KillTime::DuringWork(_))));
        assert!(plans.iter().any(|plan| plan.kills_all));
    }

    #[test]
    fn sync_failures_are_shorter_than_the_commit_retries() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let period = FaultPeriod::random(&mut random);
            assert!(period.lasts < Duration::from_secs(3));
            assert!(period.faults.failing <= 1_000 && period.faults.slow <= 1_000);
        }
    }
}
