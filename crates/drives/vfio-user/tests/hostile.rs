//! Clients that do anything: never a panic, and every promise kept.

#[path = "support/hostile.rs"]
mod hostile;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "client")
}

#[test]
fn the_corpus_does_not_break_the_device() {
    known().iter().for_each(|script| hostile::run(script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(5_000)))]

    #[test]
    fn no_client_breaks_the_device(script in inputs(known(), 3000)) {
        hostile::run(&script);
    }
}
