//! Properties: many cases, the same every time unless the environment asks for others, and a tally of what they were.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use std::{cell::RefCell, collections::BTreeMap};

/// Checks a property with so many cases. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override, as ever.
pub fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let asked = Config::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = Config {
        cases: if is_asked { asked.cases } else { cases },
        rng_seed: if asked.rng_seed == RngSeed::Random { RngSeed::Fixed(7) } else { asked.rng_seed },
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..asked
    };
    let failure = TestRunner::new(config).run(strategy, test).err().map(|failure| failure.to_string());
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

/// What the cases had in them: a run that missed what it was made for proves nothing.
#[derive(Debug, Default)]
pub struct CaseTally(RefCell<BTreeMap<&'static str, usize>>);

impl CaseTally {
    pub fn count(&self, what: &'static str, seen: bool) {
        *self.0.borrow_mut().entry(what).or_default() += usize::from(seen);
    }

    /// Fails if any of the things that were counted never came, and says how often each did.
    pub fn judge(&self) {
        let counts = self.0.borrow();
        let is_complete = !counts.is_empty() && counts.values().all(|&count| count > 0);
        assert!(is_complete, "something was never made: {counts:#?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_without_something_that_was_counted_fails() {
        let tally = CaseTally::default();
        tally.count("calls", true);
        tally.judge();
        tally.count("orphans", false);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tally.judge())).is_err());
    }

    #[test]
    #[should_panic(expected = "something was never made")]
    fn a_tally_of_nothing_fails() {
        CaseTally::default().judge();
    }
}
