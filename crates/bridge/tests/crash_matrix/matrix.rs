//! Runs the cases: first each setting without a fault, to measure the expected outcome and the hits of each point.

use crate::{
    case::{Case, Clock, FaultStage, Scenario, Setting, StoreKind, Trial},
    cases,
    process::{self, CaseReports},
    report::Line,
    table,
    verify::{self, Evidence, Expected},
};
use failpoint::Point;
use lock::LockExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    process::ExitCode,
    sync::Mutex,
    thread,
    time::Instant,
};

pub(crate) fn run(all: bool) -> ExitCode {
    let start = Instant::now();
    let (calibrated, mut results) = Calibrated::measure(&cases::settings(all));
    let cases = if all { cases::whole(&calibrated) } else { cases::subset(&calibrated) };
    results.extend(each(&cases, |case| calibrated.run(case)));
    let failed = table::print(&results);
    println!("{} cases in {:.0} s", results.len(), start.elapsed().as_secs_f64());
    println!(
        "crash matrix: {} passed, {failed} failed",
        results.iter().filter(|result| result.passed()).count()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one case and prints everything that its processes report.
pub(crate) fn show(json: &str) -> ExitCode {
    let case: Case = serde_json::from_str(json).unwrap();
    let (calibrated, _) = Calibrated::measure(&[case.setting]);
    let reports = process::run(&case);
    for line in &reports.lines {
        println!("{}", serde_json::to_string(line).unwrap());
    }
    let result = calibrated.verify(&case, &reports);
    println!("expected {:?}", calibrated.expected(case.setting));
    println!("{case}: fired {}, {:#?}", result.fired, result.problems);
    if result.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) struct CaseResult {
    pub(crate) case: Case,
    /// Whether the fault occurred.
    pub(crate) fired: bool,
    pub(crate) problems: Vec<String>,
}

impl CaseResult {
    pub(crate) fn passed(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Measurements without a fault.
pub(crate) struct Calibrated {
    hits: BTreeMap<Setting, BTreeMap<Point, u64>>,
    expected: BTreeMap<(Scenario, usize), Expected>,
}

/// The setting whose outcome is the expected one.
fn base(setting: &Setting) -> Setting {
    Setting { store: StoreKind::Sqlite, stage: FaultStage::Fresh, clock: Clock::Virtual, ..*setting }
}

impl Calibrated {
    fn measure(settings: &[Setting]) -> (Self, Vec<CaseResult>) {
        let all: BTreeSet<Setting> = settings.iter().copied().chain(settings.iter().map(base)).collect();
        let cases: Vec<Case> = all.into_iter().map(Case::without_fault).collect();
        let reports = each(&cases, |case| (*case, process::run(case)));
        let mut calibrated = Self { hits: BTreeMap::new(), expected: BTreeMap::new() };
        for (Case { setting, .. }, reports) in &reports {
            if *setting == base(setting) {
                let outcome = verify::outcome(&reports.lines).unwrap_or_default();
                calibrated.expected.insert((setting.scenario, setting.queue), outcome);
            }
            calibrated.hits.insert(*setting, hits(&reports.lines));
        }
        let results = reports.iter().map(|(case, reports)| calibrated.verify(case, reports)).collect();
        (calibrated, results)
    }

    fn expected(&self, setting: Setting) -> &Expected {
        &self.expected[&(setting.scenario, setting.queue)]
    }

    pub(crate) fn hits(&self, setting: &Setting, point: Point) -> u64 {
        self.hits.get(setting).and_then(|hits| hits.get(&point)).copied().unwrap_or(0)
    }

    /// The settings that reach a point.
    pub(crate) fn reaching(&self, store: StoreKind, point: Point) -> Vec<&Setting> {
        let reaches = |setting: &&Setting| setting.store == store && self.hits(setting, point) > 0;
        self.hits.keys().filter(reaches).collect()
    }

    /// Runs a case. The number of hits of a point depends on timing: if there were too few, the fault occurs at the
    /// first hit, and else in the setting that reaches the point most often.
    fn run(&self, case: &Case) -> CaseResult {
        let result = self.verify(case, &process::run(case));
        let Some(trial) = case.trial.filter(|_| result.passed() && !result.fired) else { return result };
        let reaching = self.reaching(case.setting.store, trial.point);
        let best = reaching.into_iter().max_by_key(|setting| self.hits(setting, trial.point));
        let again = [case.setting, best.copied().unwrap_or(case.setting)].map(|setting| {
            let case = Case { setting, trial: Some(Trial { nth: 1, ..trial }), ..*case };
            self.verify(&case, &process::run(&case))
        });
        again.into_iter().find(|result| result.fired || !result.passed()).unwrap_or(result)
    }

    fn verify(&self, case: &Case, reports: &CaseReports) -> CaseResult {
        let evidence = Evidence { case, lines: &reports.lines, aborted_at: &reports.aborted_at };
        let problems = verify::problems(&evidence, self.expected(case.setting));
        CaseResult { case: *case, fired: reports.fired, problems }
    }
}

/// How often the last process reached each point.
fn hits(lines: &[Line]) -> BTreeMap<Point, u64> {
    let hits = lines.iter().rev().find_map(|line| match line {
        Line::Hits { hits, .. } => Some(hits.clone()),
        _ => None,
    });
    hits.unwrap_or_default().into_iter().map(|(name, hits)| (name.parse().unwrap(), hits)).collect()
}

/// Applies `work` to each item, several concurrently; the results are in the order of the items.
fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // They wait for the disk as often as for a processor.
    let workers = thread::available_parallelism().map_or(2, NonZero::get) * 2;
    let next = Mutex::new(items.iter().enumerate());
    let take = || next.locked().next();
    let serve = || std::iter::from_fn(take).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(serve)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
