//! The random cases of the property tests: their number and one seed for all, the same at every run.

use proptest::test_runner::{Config, RngSeed};

/// `cases` random cases from seed 7, or from the seed in `PROPTEST_RNG_SEED`; a failing case is printed, not written to a file.
pub(crate) fn random_cases(cases: u32) -> Config {
    let given = Config::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(7),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    println!("{cases} random cases, {rng_seed:?}");
    Config {
        cases,
        rng_seed,
        failure_persistence: None,
        ..given
    }
}
