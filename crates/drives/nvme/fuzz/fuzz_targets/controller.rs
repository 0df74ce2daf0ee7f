//! Fuzzes the controller by a driver and a carrier that follow the input. Run with `cargo +nightly
//! fuzz run controller` in `crates/drives/nvme`.

#![no_main]

#[path = "../../tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::run(script));
