//! Fuzzes a server by a client whose messages and descriptors are whatever the
//! input says. Run with `cargo +nightly fuzz run messages` in `crates/realtime/serve`; what
//! its queues hold is fuzzed in `crates/drives/virtio`.

#![no_main]

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

libfuzzer_sys::fuzz_target!(|script: &[u8]| support::hostile::run(script));
