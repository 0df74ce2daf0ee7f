//! Hosts that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod scripts;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "target")
}

#[test]
fn the_corpus_does_not_break_the_target() {
    known().iter().for_each(|script| scripts::run(script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(5_000)))]

    #[test]
    fn no_host_breaks_the_target(script in inputs(known(), 3000)) {
        scripts::run(&script);
    }
}

#[test]
fn a_script_s_host_can_authenticate() {
    assert!(scripts::is_served_after_authentication());
}
