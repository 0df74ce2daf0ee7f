//! Drivers that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod hostile;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_driver_breaks_the_device(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        hostile::run(&script);
    }
}
