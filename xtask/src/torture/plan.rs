//! What will happen, made from the seed alone: what each client sends, when servers die, when the disk misbehaves.
//! Pure: the same seed is the same plan, whatever the machine does meanwhile.

use crate::rig::{preload::SyncFaults, random::Random, script::Kind};
use std::time::Duration;

/// Sessions that several clients and the terminals use at the same time.
pub(super) const SHARED_SESSIONS: u64 = 3;

/// Which session a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Only this client writes to it.
    Own,
    Shared(u64),
}

/// How a message is sent, and what the client does then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `POST /run_sse`, and reads to the end.
    Stream,
    /// `POST …/runs`, and reads the run's events.
    Begin,
    /// `POST …/runs`, and goes on.
    Leave,
    /// `POST /run`.
    Wait,
    /// Some `POST …/runs` one after the other: all but the first are queued.
    Burst(u64),
    /// `POST …/runs`, and cancels the run after so many milliseconds.
    Cancel(u64),
}

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Send {
        place: Place,
        kind: Kind,
        how: How,
        is_keyed: bool,
    },
    /// An earlier request with its key: it must be the run that it was.
    Repeat,
    /// An earlier key with another message: it must be refused.
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
        let place =
            if random.chance(650) { Place::Own } else { Place::Shared(random.below(SHARED_SESSIONS)) };
        let kind = Kind::random(random);
        let (number, is_keyed) = (random.below(1000), random.chance(800));
        let how = match number {
            0..250 => How::Stream,
            250..450 => How::Begin,
            450..550 => How::Leave,
            550..750 => How::Wait,
            750..820 => How::Burst(random.between(3, 6)),
            820..900 => How::Cancel(random.below(400)),
            900..960 => return Some(Action::Repeat),
            _ => return Some(Action::Reuse),
        };
        // Without a key the outcome of a request that was cut off is not known: a burst and a cancelled run need theirs.
        let is_keyed = is_keyed || matches!(how, How::Burst(_) | How::Cancel(_) | How::Leave);
        Some(Action::Send { place, kind, how, is_keyed })
    }
}

/// When a server dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// So long after its process was started, before it listens or shortly after.
    InStart(Duration),
    /// So long after it began to listen.
    InWork(Duration),
}

/// What a kill strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) death: Death,
    /// All servers die at once: nobody survives to take over.
    pub(super) kills_all: bool,
    /// Before the next start in its place.
    pub(super) pause: Duration,
}

impl Life {
    pub(super) fn random(random: &mut Random) -> Self {
        let millis = Duration::from_millis;
        let death = match random.below(100) {
            0..20 => Death::InStart(Duration::from_micros(random.below(25_000))),
            20..75 => Death::InWork(millis(random.between(20, 900))),
            _ => Death::InWork(millis(random.between(900, 4_000))),
        };
        Self { death, kills_all: random.chance(80), pause: millis(random.below(250)) }
    }
}

/// A time with one behaviour of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weather {
    pub(super) faults: SyncFaults,
    pub(super) lasts: Duration,
}

impl Weather {
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
    fn a_seed_is_a_plan_and_each_client_has_its_own() {
        assert_eq!(actions(1, 0), actions(1, 0));
        assert_ne!(actions(1, 0), actions(1, 1));
        assert_ne!(actions(1, 0), actions(2, 0));
    }

    #[test]
    fn every_way_to_send_is_planned_and_bursts_and_cancelled_runs_have_keys() {
        let actions = actions(3, 0);
        let sends: Vec<(How, bool)> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Send { how, is_keyed, .. } => Some((*how, *is_keyed)),
                Action::Repeat | Action::Reuse => None,
            })
            .collect();
        let has = |wanted: fn(&How) -> bool| sends.iter().any(|(how, _)| wanted(how));
        assert!(has(|how| matches!(how, How::Stream)) && has(|how| matches!(how, How::Begin)));
        assert!(has(|how| matches!(how, How::Leave)) && has(|how| matches!(how, How::Wait)));
        assert!(has(|how| matches!(how, How::Burst(_))) && has(|how| matches!(how, How::Cancel(_))));
        assert!(actions.contains(&Action::Repeat) && actions.contains(&Action::Reuse));
        assert!(sends.iter().any(|(_, is_keyed)| !is_keyed));
        let needs_key = |how: &How| matches!(how, How::Burst(_) | How::Cancel(_) | How::Leave);
        assert!(sends.iter().all(|(how, is_keyed)| *is_keyed || !needs_key(how)));
    }

    #[test]
    fn servers_die_while_they_start_while_they_work_and_all_at_once() {
        let mut random = Random::new(1);
        let lives: Vec<Life> = (0..1_000).map(|_| Life::random(&mut random)).collect();
        assert!(lives.iter().any(|life| matches!(life.death, Death::InStart(_))));
        assert!(lives.iter().any(|life| matches!(life.death, Death::InWork(_))));
        assert!(lives.iter().any(|life| life.kills_all));
    }

    #[test]
    fn no_failure_lasts_as_long_as_a_commit_is_retried() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let weather = Weather::random(&mut random);
            assert!(weather.lasts < Duration::from_secs(3));
            assert!(weather.faults.failing <= 1_000 && weather.faults.slow <= 1_000);
        }
    }
}
