//! Plans: actions at the n-th hit of a point. All hits are counted.

use crate::Point;
use lock::LockExt;
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io::Write as _,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// The action at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailAction {
    /// Aborts the process: no buffer is flushed and no destructor runs.
    Abort,
    /// The call fails with an I/O error.
    Fail,
    /// The call fails with "disk full".
    FillDisk,
    Delay(Duration),
}

/// An action at consecutive hits of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailPlan {
    pub point: Point,
    /// The first hit that triggers the action, counted from 1.
    pub nth: u64,
    /// The number of consecutive hits that trigger it.
    pub times: u64,
    pub action: FailAction,
}

/// An injected failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    Failed(Point),
    DiskFull(Point),
}

impl InjectedFault {
    pub fn is_disk_full(self) -> bool {
        matches!(self, Self::DiskFull(_))
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(point) => write!(f, "injected failure at {point}"),
            Self::DiskFull(point) => write!(f, "injected full disk at {point}"),
        }
    }
}

impl std::error::Error for InjectedFault {}

#[derive(Debug, Default)]
struct FailpointState {
    plans: Vec<FailPlan>,
    fired: u64,
    hits: BTreeMap<Point, u64>,
}

static STATE: Mutex<FailpointState> =
    Mutex::new(FailpointState { plans: Vec::new(), fired: 0, hits: BTreeMap::new() });

fn state() -> MutexGuard<'static, FailpointState> {
    STATE.locked()
}

/// Replaces all plans and resets the counters.
pub fn arm(plans: Vec<FailPlan>) {
    *state() = FailpointState { plans, ..FailpointState::default() };
}

/// How many actions were triggered.
pub fn fired() -> u64 {
    state().fired
}

/// The hits of each point since the last call of [`arm`].
pub fn hits() -> BTreeMap<Point, u64> {
    state().hits.clone()
}

/// Counts a hit and returns the action that is due.
fn count(point: Point) -> Option<FailAction> {
    let mut state = state();
    let hits = state.hits.entry(point).or_default();
    *hits += 1;
    let hit = *hits;
    let is_due = |plan: &FailPlan| plan.point == point && (plan.nth..plan.nth + plan.times).contains(&hit);
    let action = state.plans.iter().find(|plan| is_due(plan))?.action;
    state.fired += 1;
    Some(action)
}

/// Performs an action. Returns a delay, because only the caller knows whether it may block.
fn perform(point: Point, action: FailAction) -> Result<Option<Duration>, InjectedFault> {
    match action {
        FailAction::Abort => {
            // Tells the parent process that the abort was injected.
            let _ = writeln!(std::io::stderr(), "{ABORTED}{point}");
            std::process::abort();
        }
        FailAction::Fail => Err(InjectedFault::Failed(point)),
        FailAction::FillDisk => Err(InjectedFault::DiskFull(point)),
        FailAction::Delay(delay) => Ok(Some(delay)),
    }
}

/// Written to standard error before the abort, followed by the name of the point.
const ABORTED: &str = "fail point: abort at ";

/// Marks a point in async code where a call can fail.
pub async fn reach(point: Point) -> Result<(), InjectedFault> {
    let Some(action) = count(point) else { return Ok(()) };
    if let Some(delay) = perform(point, action)? {
        tokio::time::sleep(delay).await;
    }
    Ok(())
}

/// Like [`reach`], for blocking code.
pub fn hit(point: Point) -> Result<(), InjectedFault> {
    let Some(action) = count(point) else { return Ok(()) };
    if let Some(delay) = perform(point, action)? {
        std::thread::sleep(delay);
    }
    Ok(())
}

/// Marks a point in async code where nothing can fail: an injected failure is ignored.
pub async fn pass(point: Point) {
    let _ = reach(point).await;
}

/// Like [`pass`], for blocking code.
pub fn pass_blocking(point: Point) {
    let _ = hit(point);
}

/// Wraps `work` with a point before it and one after it.
pub async fn around<T, E: From<InjectedFault>>(
    [before, after]: [Point; 2],
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    reach(before).await?;
    let outcome = work.await;
    reach(after).await?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serialises the tests of this file, because the state is global.
    static TEST_LOCK: Mutex<()> = Mutex::new(());

    fn serialised() -> MutexGuard<'static, ()> {
        TEST_LOCK.locked()
    }

    fn plan(nth: u64, times: u64, action: FailAction) -> FailPlan {
        FailPlan { point: Point::BeforeStep, nth, times, action }
    }

    #[test]
    fn point_names_are_unique_and_parse() {
        for (at, point) in Point::ALL.iter().enumerate() {
            assert_eq!(point.name().parse::<Point>().unwrap(), *point);
            assert!(Point::ALL[..at].iter().all(|other| other.name() != point.name()), "{point}");
        }
        assert!("nowhere".parse::<Point>().is_err());
    }

    #[test]
    fn an_action_is_triggered_only_at_its_hits() {
        let _guard = serialised();
        arm(vec![plan(2, 2, FailAction::Fail), plan(5, 1, FailAction::Fail)]);
        let failed: Vec<bool> = (0..5).map(|_| hit(Point::BeforeStep).is_err()).collect();
        assert_eq!(failed, [false, true, true, false, true]);
        assert!(hit(Point::AfterStep).is_ok());
        assert_eq!((fired(), hits()[&Point::BeforeStep], hits()[&Point::AfterStep]), (3, 5, 1));
        arm(Vec::new());
        assert!(hits().is_empty() && fired() == 0);
    }

    #[test]
    fn a_pass_point_ignores_an_injected_failure() {
        let _guard = serialised();
        arm(vec![plan(1, 1, FailAction::FillDisk)]);
        pass_blocking(Point::BeforeStep);
        assert_eq!(fired(), 1);
        arm(Vec::new());
    }

    fn around_step(point: Point, action: FailAction) -> (bool, Result<(), InjectedFault>) {
        arm(vec![FailPlan { point, nth: 1, times: 1, action }]);
        let mut is_done = false;
        let work = async {
            is_done = true;
            Ok(())
        };
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let outcome = clock.unwrap().block_on(around([Point::BeforeStep, Point::AfterStep], work));
        (is_done, outcome)
    }

    #[test]
    fn around_runs_the_work_unless_the_point_before_it_fails() {
        let _guard = serialised();
        let (before, after) = (Point::BeforeStep, Point::AfterStep);
        assert_eq!(around_step(before, FailAction::Fail), (false, Err(InjectedFault::Failed(before))));
        assert_eq!(around_step(after, FailAction::FillDisk), (true, Err(InjectedFault::DiskFull(after))));
        assert_eq!(around_step(after, FailAction::Delay(Duration::from_hours(1))), (true, Ok(())));
        arm(Vec::new());
    }
}
