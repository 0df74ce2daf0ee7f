//! Fuzzes the controller by a driver and a carrier that follow the input. Run with `cargo +nightly
//! fuzz run controller` in `crates/drives/nvme`. With `STASIS_FUZZ_KIND=programs` every drive has
//! pairs and computational programs.

#![no_main]

#[path = "../../tests/support/hostile.rs"]
mod hostile;

use std::sync::LazyLock;

static PROGRAMS: LazyLock<bool> =
    LazyLock::new(|| std::env::var("STASIS_FUZZ_KIND").is_ok_and(|kind| kind == "programs"));

libfuzzer_sys::fuzz_target!(|script: &[u8]| match *PROGRAMS {
    true => hostile::run(&hostile::with_programs(script.to_vec())),
    false => hostile::run(script),
});
