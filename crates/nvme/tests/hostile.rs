//! Drivers that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod hostile;

use proptest::prelude::*;

/// How many inputs are tried: 2000, or as many as `make fuzz` asks for.
#[allow(clippy::disallowed_methods, reason = "a variable asks for more cases")]
fn cases() -> u32 {
    let asked = std::env::var("STASIS_FUZZ_CASES").ok();
    asked.map_or(2000, |asked| asked.parse().expect("STASIS_FUZZ_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_driver_breaks_the_controller(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        hostile::run(&script);
    }
}
