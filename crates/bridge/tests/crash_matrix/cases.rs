//! Selects the cases.

use crate::{
    case::{Case, Clock, Fault, FaultStage, QUEUES, Scenario, Setting, StoreKind, Trial},
    matrix::Calibrated,
};
use failpoint::Point;
use std::collections::BTreeSet;
use testkit::random::SplitMix64;

/// Seed: the subset is always the same.
const SEED: u64 = 12;
/// How many hits of a point are tried per setting: the first, the last, and one between.
const HITS: usize = 3;
const STAGES: [FaultStage; 2] = [FaultStage::Fresh, FaultStage::Recovery];

/// All settings, or one per store, stage and kind of run.
pub(crate) fn settings(all: bool) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (row, (store, stage)) in pairs(StoreKind::ALL, STAGES).into_iter().enumerate() {
        for (column, scenario) in Scenario::ALL.into_iter().enumerate() {
            let queues = if all { &QUEUES[..] } else { &QUEUES[(row + column) % QUEUES.len()..][..1] };
            let clock = Clock::Virtual;
            settings.extend(queues.iter().map(|queue| Setting {
                store,
                stage,
                scenario,
                queue: *queue,
                clock,
            }));
        }
    }
    settings
}

fn pairs<A: Copy, B: Copy, const M: usize, const N: usize>(first: [A; M], second: [B; N]) -> Vec<(A, B)> {
    first.iter().flat_map(|a| second.iter().map(|b| (*a, *b))).collect()
}

/// The faults of a store, each with the points at which they can occur.
pub(crate) fn trials(store: StoreKind) -> Vec<(Fault, Point)> {
    let pairs = store.faults().iter().flat_map(|fault| Point::ALL.iter().map(|point| (*fault, *point)));
    pairs.filter(|(fault, point)| fault.can_happen_at(*point) && store.has(*point)).collect()
}

/// Every point with every fault that can occur there, each in one setting of the store.
pub(crate) fn subset(calibrated: &Calibrated) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = SplitMix64::new(SEED);
    for store in StoreKind::ALL {
        for (fault, point) in trials(store) {
            let reached = calibrated.reaching(store, point);
            if let Some(setting) = random.choose(&reached) {
                let nth = 1 + random.below(calibrated.hits(setting, point));
                cases.push(Case::new(**setting, Trial { point, fault, nth }));
            }
        }
    }
    cases.extend(in_real_time().chain(after_lost_draft()));
    cases
}

/// Every point with every fault in every kind of run, with alternating queue lengths.
pub(crate) fn whole(calibrated: &Calibrated) -> Vec<Case> {
    let mut cases = BTreeSet::new();
    let mut random = SplitMix64::new(SEED);
    for (store, stage) in pairs(StoreKind::ALL, STAGES) {
        for (row, (fault, point)) in trials(store).into_iter().enumerate() {
            for (column, scenario) in Scenario::ALL.into_iter().enumerate() {
                let setting = |queue| Setting { store, stage, scenario, queue, clock: Clock::Virtual };
                let queues = (0..QUEUES.len()).map(|turn| QUEUES[(row + column + turn) % QUEUES.len()]);
                let setting = queues.map(setting).find(|setting| calibrated.hits(setting, point) > 0);
                cases.extend(setting.into_iter().flat_map(|setting| {
                    let trial = move |nth| Case::new(setting, Trial { point, fault, nth });
                    chosen_hits(&mut random, calibrated.hits(&setting, point)).into_iter().map(trial)
                }));
            }
        }
    }
    let missing = missing_pairs(calibrated, &cases);
    cases.into_iter().chain(missing).chain(in_real_time()).chain(after_lost_draft()).collect()
}

/// Ensures that each queue length meets each point and each fault, if the point is reached with it.
fn missing_pairs(calibrated: &Calibrated, cases: &BTreeSet<Case>) -> Vec<Case> {
    let mut missing = Vec::new();
    for store in StoreKind::ALL {
        for ((fault, point), queue) in
            trials(store).into_iter().flat_map(|trial| QUEUES.map(|queue| (trial, queue)))
        {
            let meets = |case: &Case| {
                let is_there = |trial: Trial| (trial.fault, trial.point) == (fault, point);
                (case.setting.store, case.setting.queue) == (store, queue) && case.trial.is_some_and(is_there)
            };
            let reached = calibrated.reaching(store, point);
            let setting = reached.iter().find(|setting| setting.queue == queue);
            if let Some(setting) = setting.filter(|_| !cases.iter().any(meets)) {
                missing.push(Case::new(**setting, Trial { point, fault, nth: 1 }));
            }
        }
    }
    missing
}

/// Cases in which a process aborts some time after it has streamed text.
fn in_real_time() -> impl Iterator<Item = Case> {
    let places = [
        (Point::ModelChunk, 3),
        (Point::ModelChunk, 4),
        (Point::ModelEnd, 1),
        (Point::BeforeShow, 3),
        (Point::BeforeFinish, 1),
    ];
    let (store, stage, scenario) = (StoreKind::Sqlite, FaultStage::Fresh, Scenario::Text);
    let setting = Setting { store, stage, scenario, queue: 1, clock: Clock::Real };
    let fault = Fault::Abort;
    places.into_iter().map(move |(point, nth)| Case::new(setting, Trial { point, fault, nth }))
}

/// Cases in which a process aborts after a draft was saved twice, because the first acknowledgement was lost.
fn after_lost_draft() -> impl Iterator<Item = Case> {
    let loses = |fault: &&Fault| fault.can_happen_at(Point::AfterDraft) && **fault != Fault::Abort;
    StoreKind::Sqlite.faults().iter().filter(loses).map(|fault| {
        let (store, stage, scenario) = (StoreKind::Sqlite, FaultStage::Fresh, Scenario::Text);
        let setting = Setting { store, stage, scenario, queue: 1, clock: Clock::Virtual };
        let earlier = Some(Trial { point: Point::AfterDraft, fault: *fault, nth: 1 });
        Case {
            earlier,
            ..Case::new(setting, Trial { point: Point::ModelChunk, fault: Fault::Abort, nth: 3 })
        }
    })
}

/// Some hits of a point, including the first and the last.
fn chosen_hits(random: &mut SplitMix64, hits: u64) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::from([1, hits]);
    while chosen.len() < HITS.min(usize::try_from(hits).unwrap()) {
        chosen.insert(1 + random.below(hits));
    }
    chosen
}
