//! Fuzzes a server by a client whose messages and descriptors follow the input. Run with `cargo
//! +nightly fuzz run messages` in `crates/realtime/serve`; the content of its queues is fuzzed in
//! `crates/drives/virtio`.

#![no_main]

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

libfuzzer_sys::fuzz_target!(|script: &[u8]| support::hostile::run(script));
