//! Fuzzes the target by hosts and a drive that follow the input. Run with `cargo +nightly fuzz run
//! target` in `crates/drives/nvme-tcp`.

#![no_main]

#[path = "../../tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::run(script));
