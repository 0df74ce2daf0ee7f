//! Fuzzes tables of files, and steps by them. Run with `cargo +nightly fuzz run table` in
//! `crates/machines/unwind`.

#![no_main]

#[path = "../../tests/common/anything.rs"]
mod anything;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    anything::exercise(bytes);
});
