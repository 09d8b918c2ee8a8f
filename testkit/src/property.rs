//! Property tests: deterministic cases unless the environment sets a seed, and coverage counts.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use std::{cell::RefCell, collections::BTreeMap};

/// Checks a property. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override the number of cases and the seed.
pub fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let default = Config::default();
    let has_cases = std::env::var_os("PROPTEST_CASES").is_some();
    let config = Config {
        cases: if has_cases { default.cases } else { cases },
        rng_seed: if default.rng_seed == RngSeed::Random { RngSeed::Fixed(7) } else { default.rng_seed },
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..default
    };
    let failure = TestRunner::new(config).run(strategy, test).err().map(|failure| failure.to_string());
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

/// Coverage counts of generated cases, so that a test fails if they never contained an interesting case.
#[derive(Debug, Default)]
pub struct CaseTally(RefCell<BTreeMap<&'static str, usize>>);

impl CaseTally {
    pub fn count(&self, what: &'static str, seen: bool) {
        *self.0.borrow_mut().entry(what).or_default() += usize::from(seen);
    }

    /// Panics with all counts if one of them is zero.
    pub fn assert_covered(&self) {
        let counts = self.0.borrow();
        let is_complete = !counts.is_empty() && counts.values().all(|&count| count > 0);
        assert!(is_complete, "a kind of case was never generated: {counts:#?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_with_a_zero_count_fails() {
        let tally = CaseTally::default();
        tally.count("calls", true);
        tally.assert_covered();
        tally.count("orphans", false);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tally.assert_covered())).is_err());
    }

    #[test]
    #[should_panic(expected = "a kind of case was never generated")]
    fn an_empty_tally_fails() {
        CaseTally::default().assert_covered();
    }
}
