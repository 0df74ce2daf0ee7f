//! Fuzzes roots in tar archives, container images among them: the input is an archive whose sums
//! are put right first. Run with `scripts/fuzz guest-root/archive`.

#![no_main]

#[path = "../../tests/common/damaged.rs"]
mod damaged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    damaged::exercise(|path| std::fs::write(path, damaged::as_archive(bytes)));
});
