//! Fuzzes the device by a client that follows the input. Run with `cargo +nightly fuzz run client`
//! in `crates/drives/vfio-user`.

#![no_main]

#[path = "../../tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::run(script));
