//! Drivers that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod scripts;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "controller")
}

/// Those of drives with pairs.
fn pairs() -> Vec<Vec<u8>> {
    let has = |script: &Vec<u8>| {
        let kind = script.first().copied().unwrap_or(0) & (scripts::OTHERS | scripts::PAIRS);
        kind == scripts::PAIRS
    };
    known().into_iter().filter(has).collect()
}

#[test]
fn the_corpus_does_not_break_the_controller() {
    known().iter().for_each(|script| scripts::run(script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4_000)))]

    #[test]
    fn no_driver_breaks_the_controller(script in inputs(known(), 3000)) {
        scripts::run(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn no_driver_breaks_computational_programs(script in inputs(known(), 12_000)) {
        scripts::run(&scripts::of_kind("programs", script).expect("a kind"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn no_driver_breaks_a_key_value_namespace(script in inputs(pairs(), 12_000)) {
        scripts::run(&script);
    }
}
