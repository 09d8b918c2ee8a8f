//! How properties are run: the same cases every time, unless the environment asks for others.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};

/// Checks a property with so many cases. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override, as ever.
pub(crate) fn check<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
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
