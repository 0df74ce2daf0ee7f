//! Fuzzes the controller by a driver and a carrier that follow the input. Run with `cargo +nightly
//! fuzz run controller` in `crates/drives/nvme`. `STASIS_FUZZ_KIND` makes every drive one of a kind:
//! `pairs`, `programs` (pairs and computational programs) or `protection`.

#![no_main]

#[path = "../../tests/support/hostile.rs"]
mod hostile;

use std::sync::LazyLock;

static KIND: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("STASIS_FUZZ_KIND").ok());

libfuzzer_sys::fuzz_target!(|script: &[u8]| match &*KIND {
    Some(kind) => {
        let script = hostile::of_kind(kind, script.to_vec());
        hostile::run(&script.expect("STASIS_FUZZ_KIND is pairs, programs or protection"));
    }
    None => hostile::run(script),
});
