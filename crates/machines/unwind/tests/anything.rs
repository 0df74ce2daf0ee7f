//! Tables of bytes that may be anything: nothing panics, and everything ends.

#[path = "common/anything.rs"]
mod anything;

use proptest::prelude::*;
use stasis_fuzz_corpus::{cases, corpus, inputs};

fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "table")
}

#[test]
fn the_corpus_has_tables() {
    let with_table = known().iter().filter(|bytes| anything::exercise(bytes)).count();
    assert!(with_table > 0, "the fuzzing begins at tables");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(500)))]

    #[test]
    fn other_inputs_do_no_harm(bytes in inputs(known(), 4096)) {
        anything::exercise(&bytes);
    }
}
