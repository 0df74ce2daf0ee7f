//! Drivers that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod scripts;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "device")
}

#[test]
fn the_corpus_does_not_break_the_device() {
    known().iter().for_each(|script| scripts::run(script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20_000)))]

    #[test]
    fn no_driver_breaks_the_device(script in inputs(known(), 3000)) {
        scripts::run(&script);
    }
}
