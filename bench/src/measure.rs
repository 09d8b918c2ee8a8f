//! Sampling: repetition after a warm-up, and alternating rounds of two sides so that both meet the same noise.

use crate::Result;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Sorted samples.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// Returns the sample nearest to that rank, or NaN if there are no samples.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last * percent + 50) / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Measures `work` in milliseconds, `times` times after `warm_up` unmeasured repetitions.
pub(crate) fn repeat(warm_up: u32, times: u32, mut work: impl FnMut() -> Result<()>) -> Result<Samples> {
    for _ in 0..warm_up {
        work()?;
    }
    let mut samples = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        work()?;
        samples.push(milliseconds(start.elapsed()));
    }
    Ok(Samples::new(samples))
}

pub(crate) struct Sides {
    pub(crate) ours: Samples,
    pub(crate) theirs: Samples,
    /// `ours / theirs` of each round.
    pub(crate) ratio: Samples,
}

/// Runs both sides in every round, after one unmeasured round. Each returns a rate. The side that runs first alternates.
pub(crate) fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> Result<f64>,
    mut theirs: impl FnMut() -> Result<f64>,
) -> Result<Sides> {
    ours()?;
    theirs()?;
    let (mut all_ours, mut all_theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            all_ours.push(ours()?);
            all_theirs.push(theirs()?);
        } else {
            all_theirs.push(theirs()?);
            all_ours.push(ours()?);
        }
    }
    let ratio = all_ours.iter().zip(&all_theirs).map(|(ours, theirs)| ours / theirs).collect();
    Ok(Sides { ours: Samples::new(all_ours), theirs: Samples::new(all_theirs), ratio: Samples::new(ratio) })
}

/// Returns the result of `work` and the CPU time of all threads of this process meanwhile.
pub(crate) fn cpu_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu_time();
    let answer = work();
    (answer, cpu_time().saturating_sub(before))
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(spent.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples = Samples::new(vec![5.0, 1.0, 3.0]);
        assert_eq!([0, 50, 100].map(|percent| samples.percentile(percent).to_string()), ["1", "3", "5"]);
        assert!(Samples::new(Vec::new()).median().is_nan());
    }

    #[test]
    fn warm_up_is_not_sampled() {
        let mut calls = 0;
        let samples = repeat(2, 3, || {
            calls += 1;
            Ok(())
        });
        assert_eq!((samples.unwrap().0.len(), calls), (3, 5));
    }

    #[test]
    fn alternating_rounds_swap_the_side_that_runs_first() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name, rate| {
            order.borrow_mut().push(name);
            Ok(rate)
        };
        let sides = alternate(2, || side('a', 3.0), || side('b', 4.0)).unwrap();
        assert_eq!(order.into_inner(), "ababba");
        assert_eq!(sides.ratio.median().to_string(), "0.75");
    }

    #[test]
    fn sleeping_costs_less_cpu_than_spinning() {
        let ((), waiting) = cpu_of(|| std::thread::sleep(Duration::from_millis(200)));
        let ((), working) = cpu_of(|| {
            let end = Instant::now() + Duration::from_millis(200);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        });
        assert!(waiting < working, "{waiting:?} {working:?}");
    }
}
